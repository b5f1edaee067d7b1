"""Text split by where its tokens came from."""

import io
import itertools

import pytest
from rich.console import Console
from tests.support.tabular_engine import letter_tokenizer

from leeway.cli.provenance import ProvenanceText, print_legend, print_runs
from leeway.core.types import OutputDelta, Provenance

A, R, B = Provenance.ACCEPTED, Provenance.RECOVERED, Provenance.BONUS


def delta(token_ids, provenance, text):
    return OutputDelta("x", tuple(token_ids), tuple(provenance), text)


def test_runs_of_one_provenance_are_joined():
    painter = ProvenanceText(letter_tokenizer(6))
    assert painter.split(delta([0, 1, 2], [A, A, R], "abc")) == [("ab", A), ("c", R)]
    assert painter.split(delta([3], [B], "d")) == [("d", B)]


def test_text_that_lags_keeps_its_provenance():
    painter = ProvenanceText(letter_tokenizer(6))
    assert painter.split(delta([0, 1], [A, R], "")) == []
    assert painter.split(delta([2], [B], "ab")) == [("a", A), ("b", R)]
    assert painter.split(delta([], [], "c")) == [("c", B)]


@pytest.mark.parametrize("cuts", list(itertools.combinations(range(5), 2)))
def test_any_delivery_of_the_text_gives_the_same_characters(cuts):
    painter = ProvenanceText(letter_tokenizer(6))
    origins, text = [A, R, B, A], "abcd"
    pieces = [text[: cuts[0]], text[cuts[0] : cuts[1]], text[cuts[1] :]]
    deltas = [delta(range(4), origins, pieces[0]), *(delta([], [], one) for one in pieces[1:])]
    runs = [run for one in deltas for run in painter.split(one)]
    assert [(c, o) for piece, o in runs for c in piece] == list(zip(text, origins, strict=True))


def printed(runs, **console):
    stream = io.StringIO()
    print_runs(Console(file=stream, markup=False, highlight=False, **console), runs)
    return stream.getvalue()


def test_marks_in_a_pipe():
    assert printed([("ab", A), ("[c]", R), ("d ", B)]) == "[ab]{[c]}d "


def test_marks_on_a_terminal_differ_without_colour():
    codes = printed([("ab", A), ("c", R), ("d", B)], force_terminal=True, no_color=True)
    assert codes == "\x1b[4mab\x1b[0m\x1b[1mc\x1b[0md"


def test_legend():
    stream = io.StringIO()
    print_legend(Console(file=stream, markup=False))
    assert stream.getvalue().startswith("[accepted] {recovered} bonus")
    stream = io.StringIO()
    print_legend(Console(file=stream, force_terminal=True, no_color=True))
    assert "\x1b[4maccepted\x1b[0m" in stream.getvalue()
