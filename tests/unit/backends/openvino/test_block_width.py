"""Padding of short blocks: never narrower than asked, steady under changing drafts, not forever."""

from hypothesis import given
from hypothesis import strategies as st

from leeway.backends.base import SequenceInput
from leeway.backends.openvino.block_width import (
    MAX_BLOCK_ROWS,
    PATIENCE,
    STABLE_ROWS,
    BlockWidth,
    HeadWidth,
    is_block,
)


def block(length):
    return SequenceInput(0, [0] * length, length)


def prompt(length):
    return SequenceInput(0, [0] * length, 1 if length > 1 else 0)


def widths(forwards):
    """Return the widths of forwards of blocks, given by their lengths."""
    block_width = BlockWidth()
    return [block_width.pad([block(length) for length in lens]) for lens in forwards]


INPUTS = st.builds(
    lambda length, is_prompt: prompt(length) if is_prompt else block(length),
    st.integers(1, 40),
    st.booleans(),
)


@given(st.lists(st.lists(INPUTS, min_size=1, max_size=4), min_size=1, max_size=40))
def test_no_sequence_loses_a_row_and_only_blocks_get_more_than_they_must(forwards):
    block_width = BlockWidth()
    for inputs in forwards:
        for item, width in zip(inputs, block_width.pad(inputs), strict=True):
            least = max(len(item.token_ids), STABLE_ROWS)
            assert width >= least
            assert width <= MAX_BLOCK_ROWS if is_block(item) else width == least


def test_drafts_of_changing_length_keep_one_shape():
    assert widths([[4], [1], [4], [2], [1], [4]]) == [[4]] * 6


def test_all_blocks_share_the_width():
    block_width = BlockWidth()
    assert block_width.pad([block(1), block(4), prompt(100)]) == [4, 4, 100]
    assert block_width.pad([block(1), block(1)]) == [4, 4]


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


def test_prompts_change_no_width():
    block_width = BlockWidth()
    for item, expected in ((prompt(9), 9), (block(1), STABLE_ROWS), (prompt(1), STABLE_ROWS)):
        assert block_width.pad([item]) == [expected]
    assert block_width.pad([block(17)]) == [17]
    assert block_width.pad([block(1)]) == [STABLE_ROWS]


def test_a_head_gets_the_same_rows_whatever_a_usual_draft_left_over():
    widths = HeadWidth()
    lens = (1, 2, 3, 4, 5, 8, 9, 16, 17, 500)
    items = [SequenceInput(0, [0] * length, 1) for length in lens]
    assert widths.pad(items) == [4, 4, 4, 4, 8, 8, 16, 16, 17, 500]
    assert [widths.num_logit_rows(item, 4) for item in items] == [1] * len(items)
    assert widths.num_logit_rows(SequenceInput(0, [0] * 60, 0), 60) == 0
