"""Text split by where its tokens came from."""

import itertools

import pytest
from tests.support.tabular_engine import letter_tokenizer

from leeway.core.types import OutputDelta, Provenance
from leeway.text.provenance import Piece, ProvenanceText

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


def test_pieces_are_tokens_and_plain_ones_had_no_draft_before_them():
    painter = ProvenanceText(letter_tokenizer(6))
    assert painter.pieces(delta([0], [B], "a")) == [Piece("a", B, is_plain=True)]
    assert painter.pieces(delta([1, 2, 3], [A, A, B], "bc")) == [Piece("b", A), Piece("c", A)]
    assert painter.pieces(delta([4], [B], "de")) == [Piece("d", B), Piece("e", B, is_plain=True)]
    assert painter.pieces(delta([5], [R], "f")) == [Piece("f", R)]
