import pytest
from tests.support.array_kinds import KINDS, numbers

from leeway.acceptance.blocks import Blocks

pytestmark = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def blocks(kind, first_rows, num_draft_tokens, max_draft_len=3):
    return Blocks(kind.array(first_rows), kind.array(num_draft_tokens), max_draft_len)


def test_places_of_the_grid(kind):
    three = blocks(kind, [0, 2, 2], [2, 0, 1])
    drafted = [[True, True, False], [False, False, False], [True, False, False]]
    assert numbers(three.is_drafted).tolist() == drafted
    assert numbers(three.rows).tolist() == [[0, 1, 0], [0, 0, 0], [2, 0, 0]]
    last = [[False, True, False], [False, False, False], [True, False, False]]
    assert numbers(three.is_last()).tolist() == last
    up_to = numbers(three.is_up_to(kind.array([0, 0, 1])))
    assert up_to.tolist() == [[True, False, False], [False, False, False], [True, False, False]]


def test_the_row_at_an_offset_is_never_another_requests(kind):
    three = blocks(kind, [0, 3, 3], [2, 0, 3])
    assert numbers(three.rows_at(kind.array([0, 0, 0]))).tolist() == [0, 0, 3]
    assert numbers(three.rows_at(kind.array([2, 0, 3]))).tolist() == [1, 0, 5]


@pytest.mark.parametrize("gap", [0, 1])
def test_places_are_the_inverse_of_rows(gap, kind):
    lengths = [0, 3, 1, 0, 2, 0]
    first, num_rows = [], 0
    for length in lengths:
        first.append(num_rows)
        num_rows += length + gap
    some = blocks(kind, first, lengths)
    requests, offsets = (numbers(one) for one in some.places(num_rows))
    for request, (row, length) in enumerate(zip(first, lengths, strict=True)):
        for offset in range(length):
            assert (requests[row + offset], offsets[row + offset]) == (request, offset)
    assert offsets.max() <= 2


def test_grid(kind):
    values = numbers(blocks(kind, [0, 2], [2, 1]).grid(kind.array([0.1, 0.2, 0.3])))
    assert values[0, :2].tolist() == [0.1, 0.2]
    assert values[1, 0] == 0.3
    empty = blocks(kind, [0, 0], [0, 0]).grid(kind.array([0.5])[:0])
    assert numbers(empty).tolist() == [[0, 0, 0], [0, 0, 0]]
