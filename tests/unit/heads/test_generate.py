"""Answers on disk: each prompt once, the same after an interruption, whole shards only."""

import json

import numpy as np
import pytest
from tests.support.training_data import ORDER, VOCAB, capturing_engine, expected_states

from leeway.backends.tabular import random_table
from leeway.heads import dataset, generate
from leeway.heads.dataset import read_answers, shard_folders
from leeway.heads.generate import num_stored

PROMPTS = [(index % VOCAB, (index // VOCAB) % VOCAB, 1) for index in range(22)]


class StopHereError(Exception):
    pass


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(generate, "ANSWERS_A_SHARD", 4)


def run(root, prompts=PROMPTS, num_positions=10_000, **options):
    engine = options.pop("engine", None) or capturing_engine(max_num_seqs=3)
    return generate.generate(
        engine, prompts, root, max_tokens=7, num_positions=num_positions, seed=5, **options
    )


def by_prompt(root):
    """Return each prompt's tokens; every prompt must be there once."""
    places = [
        place
        for folder in shard_folders(root)
        for place in json.loads((folder / "about.json").read_text())["prompts"]
    ]
    answers = read_answers(root)
    assert len(places) == len(set(places)) == len(answers)
    return {place: one.token_ids.tolist() for place, one in zip(places, answers, strict=True)}


def test_every_prompt_is_answered_with_its_states(tmp_path):
    told = []
    total = run(tmp_path, on_progress=told.append)
    answers = read_answers(tmp_path)
    assert set(by_prompt(tmp_path)) == set(range(len(PROMPTS)))
    assert total == num_stored(tmp_path) == sum(len(one.hidden) for one in answers)
    assert told[0] == 0 and told == sorted(told)
    for place, tokens in by_prompt(tmp_path).items():
        assert tuple(tokens[:3]) == PROMPTS[place]
    for one in answers:
        assert one.start == 3 and len(one.token_ids) == len(one.hidden) + 1
        np.testing.assert_array_equal(one.hidden, expected_states(one.token_ids[:-1].tolist()))


@pytest.mark.parametrize("num_calls", [3, 8, 11, 14])
def test_a_killed_run_is_finished_with_the_same_answers(tmp_path, num_calls):
    run(tmp_path / "whole")
    calls = []

    def stop(done):
        calls.append(done)
        if len(calls) == num_calls:
            raise StopHereError

    with pytest.raises(StopHereError):
        run(tmp_path / "parts", on_progress=stop)
    assert len(shard_folders(tmp_path / "parts")) < len(shard_folders(tmp_path / "whole"))
    total = run(tmp_path / "parts")
    assert by_prompt(tmp_path / "parts") == by_prompt(tmp_path / "whole")
    assert total == num_stored(tmp_path / "whole")
    assert run(tmp_path / "parts") == total  # a third run has nothing to do
    assert by_prompt(tmp_path / "parts") == by_prompt(tmp_path / "whole")


def test_a_shard_that_was_not_finished_is_never_read(tmp_path, monkeypatch):
    written = []

    def save_two(path, array):
        if len(written) == 7:
            raise StopHereError
        written.append(path)
        with path.open("wb") as file:
            np.lib.format.write_array(file, array)

    monkeypatch.setattr(dataset.np, "save", save_two)
    with pytest.raises(StopHereError):
        run(tmp_path)
    monkeypatch.undo()
    assert len(shard_folders(tmp_path)) == 2 and len(list(tmp_path.iterdir())) == 3
    assert len(read_answers(tmp_path)) == 8
    run(tmp_path)
    assert set(by_prompt(tmp_path)) == set(range(len(PROMPTS)))
    assert not list(tmp_path.glob("*.part"))


def test_it_stops_when_there_is_enough_and_goes_on_when_more_is_asked_for(tmp_path):
    some = run(tmp_path, num_positions=60)
    assert 60 <= some < 200 and len(by_prompt(tmp_path)) < len(PROMPTS)
    assert run(tmp_path, num_positions=60) == some
    before = by_prompt(tmp_path)
    assert run(tmp_path) > some
    assert before.items() <= by_prompt(tmp_path).items()


def test_prompts_that_do_not_fit_are_passed_over(tmp_path):
    prompts = [PROMPTS[0], (1,) * 64, (2,) * 500, PROMPTS[1]]  # context 64
    run(tmp_path, prompts)
    assert set(by_prompt(tmp_path)) == {0, 3}


def test_answers_that_end_at_once_are_of_no_use(tmp_path):
    table = {key: np.eye(VOCAB)[4] for key in random_table(VOCAB, ORDER, seed=1)}
    engine = capturing_engine(table, eos_token_id=4)
    assert run(tmp_path, [(0, 1), (2,)], engine=engine) == 0
    assert read_answers(tmp_path) == []


def test_two_thirds_are_drawn_warm_and_every_third_cool():
    kinds = [generate._request(index, (1,), 9, seed=2).sampling for index in range(6)]
    assert [one.temperature for one in kinds] == [1.0, 1.0, 0.6] * 2
    assert [one.top_k for one in kinds] == [20, 20, generate.COOL.top_k] * 2
    assert len({one.seed for one in kinds}) == 6 and all(one.max_tokens == 9 for one in kinds)
    other_seed = generate._request(0, (1,), 9, seed=3).sampling
    assert other_seed.seed != kinds[0].seed
