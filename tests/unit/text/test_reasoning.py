"""Reasoning and answer: the same two texts however the whole is cut."""

import pytest

from leeway.text.reasoning import ReasoningSplit, begins_inside, count_tokens

CASES = {
    "both": (False, "<think>\nhm, so\n</think>\n\nYes", "hm, so\n", "Yes"),
    "blank-first": (False, "\n <think>a</think>b", "a", "b"),
    "none": (False, "Yes <think>no</think>", "", "Yes <think>no</think>"),
    "empty": (False, "<think>\n\n</think>\n\nYes", "", "Yes"),
    "open-in-prompt": (True, "\nso</think>Yes", "so", "Yes"),
    "cut": (False, "<think>so it </thi", "so it </thi", ""),
    "cut-at-once": (False, " <thi", "", " <thi"),
    "no-answer": (True, "so</think>\n", "so", ""),
    "second-tag": (True, "a</think>b</think>c", "a", "b</think>c"),
}


def read(is_inside, *texts):
    split = ReasoningSplit(is_inside=is_inside)
    found = [split.add(text) for text in texts] + [split.finish()]
    return "".join(one for one, _ in found), "".join(other for _, other in found)


@pytest.mark.parametrize("name", CASES)
def test_t14_both_texts_are_the_same_however_the_whole_is_cut(name):
    is_inside, text, reasoning, answer = CASES[name]
    assert read(is_inside, text) == (reasoning, answer)
    assert read(is_inside, *text) == (reasoning, answer)
    for at in range(1, len(text)):
        assert read(is_inside, text[:at], text[at:]) == (reasoning, answer)


def test_what_is_certain_is_delivered_at_once():
    split = ReasoningSplit(is_inside=False)
    assert split.add("<think>a <") == ("a ", "")
    assert split.is_reasoning
    assert split.add("b </think>") == ("<b ", "")
    assert not split.is_reasoning
    assert split.add("\n\n") == ("", "")
    assert split.add("c ") == ("", "c ")
    assert split.add(" d") == ("", " d")


@pytest.mark.parametrize(
    ("prompt", "is_inside"),
    [("…assistant\n<think>\n", True), ("<think>\n\n</think>\n\n", False), ("assistant\n", False)],
)
def test_a_prompt_may_open_the_tag(prompt, is_inside):
    assert begins_inside(prompt) is is_inside


@pytest.mark.parametrize(
    ("is_inside", "texts", "num_reasoning"),
    [
        (False, ["<th", "ink>", "so", "</think>", "Yes"], 4),
        (False, ["<think>", "so", "</think>Yes", "No"], 3),
        (True, ["so", "</th", "ink>", "\n"], 3),
        (False, ["Yes", "<think>", "no"], 0),
        (False, ["<think>", "so", ""], 3),
        (False, [], 0),
    ],
)
def test_t19_tokens_are_counted_up_to_the_one_that_closes_the_tag(is_inside, texts, num_reasoning):
    assert count_tokens(texts, is_inside=is_inside) == num_reasoning
