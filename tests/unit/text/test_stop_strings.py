import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leeway.core.errors import RequestError
from leeway.text.stop_strings import StopStrings


def reference(text: str, stops: tuple[str, ...]) -> tuple[str, bool]:
    """Character by character: the first end at which a stop string is complete; the longest."""
    for end in range(1, len(text) + 1):
        complete = [stop for stop in stops if text[:end].endswith(stop)]
        if complete:
            return text[: end - max(map(len, complete))], True
    return text, False


def deliver(chunks: list[str], stops: tuple[str, ...]) -> tuple[str, bool]:
    matcher = StopStrings(stops)
    delivered = ""
    for chunk in chunks:
        text, is_stopped = matcher.add(chunk)
        delivered += text
        if is_stopped:
            return delivered, True
    return delivered + matcher.finish(), False


def all_cuts(text: str) -> list[list[str]]:
    """Return every way to cut a text into non-empty chunks."""
    ways = []
    for marks in itertools.product((False, True), repeat=max(len(text) - 1, 0)):
        chunks = [text[:1]]
        for letter, is_cut in zip(text[1:], marks, strict=True):
            if is_cut:
                chunks.append(letter)
            else:
                chunks[-1] += letter
        ways.append(chunks)
    return ways


STOPS = [
    ("ab",),
    ("aab",),
    ("aba",),
    ("abb", "ba"),
    ("ab", "abab"),
    ("aaaa", "aa"),
    ("b", "abb"),
    ("bab", "ab", "a"),
]


@pytest.mark.parametrize("stops", STOPS)
def test_every_text_at_every_chunking(stops: tuple[str, ...]) -> None:
    for length in range(1, 8):
        for letters in itertools.product("ab", repeat=length):
            text = "".join(letters)
            expected = reference(text, stops)
            for chunks in all_cuts(text):
                assert deliver(chunks, stops) == expected, chunks


@given(
    st.lists(st.text(alphabet="ab\n", max_size=4), max_size=8),
    st.lists(st.text(alphabet="ab\n", min_size=1, max_size=4), max_size=3),
)
def test_chunking_never_matters(chunks: list[str], stops: list[str]) -> None:
    assert deliver(chunks, tuple(stops)) == reference("".join(chunks), tuple(stops))


def test_only_what_may_begin_a_stop_is_held() -> None:
    matcher = StopStrings(("\nUser:",))
    assert matcher.add("Hello") == ("Hello", False)
    assert matcher.add("\nUs") == ("", False)
    assert matcher.add("eful") == ("\nUseful", False)
    assert matcher.add("!\nUser") == ("!", False)
    assert matcher.add(": and more") == ("", True)
    assert matcher.finish() == ""


def test_a_beginning_that_never_completes_is_delivered_at_the_end() -> None:
    matcher = StopStrings(("END",))
    assert matcher.add("the EN") == ("the ", False)
    assert matcher.finish() == "EN"
    assert matcher.finish() == ""


def test_nothing_follows_a_stop() -> None:
    matcher = StopStrings(("x",))
    assert matcher.add("ax") == ("a", True)
    assert matcher.add("more") == ("", True)


def test_without_stops_text_passes() -> None:
    matcher = StopStrings(())
    assert matcher.add("anything") == ("anything", False)
    assert matcher.finish() == ""


def test_an_empty_stop_is_refused() -> None:
    with pytest.raises(RequestError, match="empty string") as caught:
        StopStrings(("a", ""))
    assert caught.value.param == "stop"
