import pytest
from tests.support.tabular_engine import letter_tokenizer

from leeway.text.span import SpanWatch, watch_answer

WORDS = ["x", "<th", "ink>", "y", "</", "think", ">z", "<think>a</think>b<think>", " \n"]


def watch():
    return SpanWatch(b"<think>", b"</think>", lambda token: WORDS[token].encode())


@pytest.mark.parametrize(
    ("tokens", "inside"),
    [
        ([1, 2, 3, 4, 5, 6, 0], [False, False, True, True, True, True, False]),
        ([8, 1, 2, 3], [False, False, False, True]),
        ([1, 0, 2, 3], [False, False, False, False]),
        ([0, 1, 2, 3], [False, False, False, False]),
        ([1, 2, 4, 5, 6, 1, 2, 3], [False, False, True, True, True, False, False, False]),
        ([7, 3], [False, False]),
        ([1, 2, 4, 3, 5, 6, 3], [False, False, True, True, True, True, True]),
    ],
    ids=["pieces", "white space", "broken", "not first", "again", "all in one", "broken end"],
)
def test_a_token_is_judged_by_those_before_it(tokens, inside):
    ahead, fed = watch(), watch()
    assert ahead.inside(tokens) == inside
    seen = []
    for token in tokens:
        seen.append(fed.phase == "inside")
        fed.feed([token])
    assert seen == inside


def test_looking_ahead_does_not_move_the_watch():
    one = watch()
    one.feed([1])
    one.inside([2, 3])
    assert one.phase == "start"
    one.feed([2])
    assert one.phase == "inside"


@pytest.mark.parametrize(
    ("prompt", "is_inside"),
    [((1,), True), ((1, 0), False), ((0, 1), True), ((), False), ((1, 2, 1), True)],
)
def test_a_prompt_opens_a_span_only_with_its_last_words(prompt, is_inside):
    one = watch_answer(letter_tokenizer(4), "b", "c", prompt)
    assert (one.phase == "inside") is is_inside


def test_special_tokens_count_by_their_names():
    one = watch_answer(letter_tokenizer(4, eos_token_id=3), "<eos>", "c", (0,))
    assert one.inside([3, 0, 2, 0]) == [False, True, True, False]
