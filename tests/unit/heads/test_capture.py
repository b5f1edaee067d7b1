"""What is captured while an engine answers: the states that the backend gave, place by place."""

import numpy as np
from tests.support.tabular_engine import ask, make_engine, run_all, token_ids
from tests.support.training_data import ORDER, VOCAB, capturing_engine, expected_states

from leeway.backends.tabular import random_table
from leeway.heads.capture import CaptureDrafter

PROMPTS = {"a": (1, 2, 3), "b": (0,), "c": tuple(range(5)) * 2}


def requests(**changes):
    asked = {"temperature": 1.0, "max_tokens": 6, "seed": 3} | changes
    return [ask(prompt, name, **asked) for name, prompt in PROMPTS.items()]


def test_states_tokens_and_where_the_answer_begins():
    engine = capturing_engine(max_num_seqs=2)
    answers = run_all(engine, *requests())
    finished = {one.request_id: one for one in engine.parts.drafter.finished}
    assert set(finished) == set(PROMPTS)
    for name, prompt in PROMPTS.items():
        text = [*prompt, *token_ids(answers[name])]
        captured = finished[name]
        assert captured.num_prompt_tokens == len(prompt)
        assert captured.token_ids == text[:-1]  # the last token's forward never ran
        assert captured.num_positions == len(text) - 2
        states = np.concatenate(captured.hidden)
        assert states.dtype == np.float16
        np.testing.assert_array_equal(states, expected_states(text[: len(states)]))


def test_answers_are_those_of_an_engine_that_captures_nothing():
    plain = make_engine(random_table(VOCAB, ORDER, seed=1), order=ORDER)
    expected = {name: token_ids(one) for name, one in run_all(plain, *requests()).items()}
    captured = run_all(capturing_engine(), *requests())
    assert {name: token_ids(one) for name, one in captured.items()} == expected


def test_a_request_that_was_never_seen_is_forgotten_silently():
    drafter = CaptureDrafter()
    drafter.forget("unknown")
    assert drafter.finished == []


def test_an_answer_of_one_token_has_no_beginning():
    engine = capturing_engine()
    run_all(engine, *requests(max_tokens=1))
    assert all(one.num_prompt_tokens == 0 for one in engine.parts.drafter.finished)
