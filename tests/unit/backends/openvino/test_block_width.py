"""Padding of short blocks: never narrower than asked, steady under changing drafts, not forever."""

from hypothesis import given
from hypothesis import strategies as st

from leeway.backends.openvino.block_width import (
    MAX_BLOCK_ROWS,
    PATIENCE,
    STABLE_ROWS,
    BlockWidth,
)


def widths(forwards):
    block_width = BlockWidth()
    return [block_width.pad(lens) for lens in forwards]


@given(st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=4), min_size=1, max_size=40))
def test_no_block_loses_a_row_and_prompts_keep_their_length(forwards):
    for lens, padded in zip(forwards, widths(forwards), strict=True):
        for length, width in zip(lens, padded, strict=True):
            assert width >= max(length, STABLE_ROWS)
            assert (width == length) if length > MAX_BLOCK_ROWS else (width <= MAX_BLOCK_ROWS)


def test_drafts_of_changing_length_keep_one_shape():
    assert widths([[4], [1], [4], [2], [1], [4]]) == [[4]] * 6


def test_all_sequences_share_the_width():
    assert widths([[1, 4, 100], [1, 1]]) == [[4, 4, 100], [4, 4]]


def test_plain_decoding_gets_narrow_again_after_the_patience():
    padded = widths([[4], *[[1]] * (PATIENCE + 3)])
    assert padded == [[4]] * (PATIENCE + 1) + [[STABLE_ROWS]] * 3


def test_the_width_falls_to_the_widest_of_the_narrower_ones():
    padded = widths([[5], *[[2], [3], [1]] * 4])
    assert padded[PATIENCE] == [5]
    assert padded[PATIENCE + 1 :] == [[3]] * (12 - PATIENCE)


def test_a_wide_block_in_between_starts_the_patience_anew():
    forwards = [[4], *[[1]] * PATIENCE, [4], *[[1]] * PATIENCE]
    assert widths(forwards) == [[4]] * len(forwards)


def test_prompt_chunks_alone_change_nothing():
    assert widths([[300], [1], [17], [1]]) == [[300], [STABLE_ROWS], [17], [STABLE_ROWS]]
