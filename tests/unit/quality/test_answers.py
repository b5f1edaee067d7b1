"""Collecting answers: whole ones, enough of them, each its own seed."""

import pytest
from tests.support.tabular_engine import ask, make_engine, run_all, token_ids

from leeway.backends.tabular import random_table
from leeway.core.errors import RequestError
from leeway.core.types import SamplingParams
from leeway.quality.answers import collect_answers, total_tally

TABLE = random_table(4, 1, seed=2)
PROMPTS = [(0,), (1, 2)]


def engine(**options):
    return make_engine(TABLE, drafter="ngram", eos_token_id=3, **options)


def test_each_answer_is_what_its_prompt_and_seed_give_alone():
    sampling = SamplingParams(max_tokens=9, top_k=3)
    answers = collect_answers(engine(), PROMPTS, sampling, min_tokens=60, seed=7)
    assert sum(len(one.token_ids) for one in answers) >= 60
    for index, one in enumerate(answers):
        assert one.prompt_ids == PROMPTS[index % 2] and one.seed == 7 + index
        request = ask(one.prompt_ids, max_tokens=9, top_k=3, seed=7 + index)
        assert token_ids(run_all(engine(), request)["a"]) == tuple(one.token_ids)
        assert one.receipt.seed == one.seed


def test_no_answer_is_begun_once_there_are_enough_and_all_begun_are_whole():
    seen = []
    answers = collect_answers(
        engine(max_num_seqs=2),
        PROMPTS,
        SamplingParams(max_tokens=5),
        min_tokens=1,
        seed=0,
        on_tokens=seen.append,
    )
    assert len(answers) == 2
    assert all(len(one.token_ids) == 5 or one.token_ids[-1] == 3 for one in answers)
    assert seen[-1] == sum(len(one.token_ids) for one in answers) and seen == sorted(seen)
    assert total_tally(answers).num_output_tokens == seen[-1]


def test_a_refused_prompt_starts_nothing():
    loaded = engine()
    with pytest.raises(RequestError, match="token id 9"):
        collect_answers(loaded, [(0,), (9,)], SamplingParams(), min_tokens=5, seed=0)
    assert not loaded.has_work


def test_an_interruption_leaves_the_engine_idle():
    loaded = engine()

    def interrupt(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collect_answers(
            loaded,
            PROMPTS,
            SamplingParams(max_tokens=50),
            min_tokens=99,
            seed=0,
            on_tokens=interrupt,
        )
    assert not loaded.has_work and loaded.parts.backend.num_open() == 0
