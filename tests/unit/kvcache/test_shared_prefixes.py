"""Blocks that several sequences share: found by content, kept while idle, taken when needed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leeway.core.errors import CapacityError
from leeway.kvcache import BlockPool

TEXT = list(range(100, 112))


def pool_of(num_blocks: int = 8) -> BlockPool:
    return BlockPool(num_blocks, block_len=4, max_sequence_len=32)


def filled(pool: BlockPool, text: list[int], *, is_shared: bool = True) -> int:
    handle = pool.open()
    taken = pool.take_prefix(handle, text)
    pool.append([(handle, len(text) - taken)])
    if is_shared:
        pool.share_prefix(handle, text)
    pool.check_integrity()
    return handle


def blocks_of(pool: BlockPool, handle: int) -> list[int]:
    table = pool.table(handle)
    return table.ids[: table.num_blocks].tolist()


@pytest.mark.parametrize("is_closed", [False, True], ids=["beside-its-owner", "behind-it"])
def test_a_prefix_is_taken_over_in_whole_blocks(is_closed: bool) -> None:
    pool = pool_of()
    first = filled(pool, TEXT[:11])
    blocks = blocks_of(pool, first)
    if is_closed:
        pool.close(first)
    assert pool.num_idle_blocks == (2 if is_closed else 0)
    second = pool.open()
    assert pool.take_prefix(second, TEXT) == 8
    assert pool.table(second).cached_len == 8
    assert blocks_of(pool, second) == blocks[:2]
    pool.append([(second, 3)])
    assert blocks_of(pool, second)[2] != blocks[2] or is_closed
    pool.check_integrity()


def test_nothing_is_found_before_it_is_shared() -> None:
    pool = pool_of()
    filled(pool, TEXT, is_shared=False)
    assert pool.take_prefix(pool.open(), TEXT) == 0


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ([*TEXT[:4], 0, *TEXT[5:]], 4),
        ([0, *TEXT[1:]], 0),
        (TEXT[4:], 0),
        (TEXT[:7], 4),
        (TEXT[:3], 0),
        ([], 0),
        ([*TEXT, 5, 6, 7, 8], 12),
    ],
)
def test_a_block_is_found_only_behind_the_text_it_was_written_behind(
    text: list[int], found: int
) -> None:
    pool = pool_of()
    pool.close(filled(pool, TEXT))
    assert pool.take_prefix(pool.open(), text) == found
    pool.check_integrity()


def test_idle_blocks_are_taken_away_when_room_is_needed_the_end_of_a_text_first() -> None:
    pool = pool_of(num_blocks=4)
    pool.close(filled(pool, TEXT))
    assert (pool.num_free_blocks, pool.num_idle_blocks) == (4, 3)
    other = pool.open()
    pool.append([(other, 8)])
    assert (pool.num_free_blocks, pool.num_idle_blocks) == (2, 2)
    pool.check_integrity()
    pool.append([(other, 4)])
    pool.close(other)
    assert pool.take_prefix(pool.open(), TEXT) == 4


def test_the_text_idle_for_longest_goes_first() -> None:
    pool = pool_of(num_blocks=3)
    for text in ([1] * 4, [2] * 4, [3] * 4):
        pool.close(filled(pool, text))
    pool.close(filled(pool, [1] * 4))
    pool.append([(pool.open(), 1)])
    held = {text: pool.take_prefix(pool.open(), [text] * 4) for text in (1, 2, 3)}
    assert held == {1: 4, 2: 0, 3: 4}


def test_owned_blocks_are_never_taken_away() -> None:
    pool = pool_of(num_blocks=3)
    owner = filled(pool, TEXT[:8])
    reader = pool.open()
    pool.take_prefix(reader, TEXT[:8])
    with pytest.raises(CapacityError, match="1 of 3 blocks of 4 tokens free"):
        pool.append([(pool.open(), 5)])
    pool.close(owner)
    assert pool.num_free_blocks == 1
    pool.close(reader)
    assert (pool.num_free_blocks, pool.num_idle_blocks) == (3, 2)


def test_a_shared_block_is_never_cut() -> None:
    pool = pool_of()
    handle = filled(pool, TEXT[:10])
    pool.truncate(handle, 8)
    with pytest.raises(AssertionError, match="shared block is cut"):
        pool.truncate(handle, 7)
    pool.truncate(handle, 4)
    assert pool.num_idle_blocks == 1
    pool.check_integrity()


def test_of_two_with_the_same_text_one_is_found_and_none_is_lost() -> None:
    pool = pool_of()
    first = filled(pool, TEXT[:8], is_shared=False)
    second = filled(pool, TEXT[:8], is_shared=False)
    pool.share_prefix(first, TEXT[:8])
    pool.share_prefix(second, TEXT[:8])
    pool.check_integrity()
    pool.close(first)
    pool.close(second)
    pool.check_integrity()
    assert (pool.num_free_blocks, pool.num_idle_blocks) == (8, 2)


def test_more_than_is_cached_cannot_be_shared_nor_taken_into_a_used_sequence() -> None:
    pool = pool_of()
    handle = pool.open()
    pool.append([(handle, 4)])
    with pytest.raises(AssertionError):
        pool.share_prefix(handle, TEXT[:5])
    with pytest.raises(AssertionError, match="empty sequence"):
        pool.take_prefix(handle, TEXT)


@pytest.mark.parametrize("fault", ["written", "miscounted", "keyless idle", "free with a key"])
def test_integrity_check_finds(fault: str) -> None:
    pool = pool_of()
    handle = filled(pool, TEXT[:8])
    block = blocks_of(pool, handle)[0]
    if fault == "written":
        pool.table(handle).num_fixed = 0
    elif fault == "miscounted":
        pool._num_owners[block] += 1
    elif fault == "keyless idle":
        pool._prefixes._idle[7] = None
    else:
        pool.close(handle)
        pool._free.append(pool._prefixes.idle_blocks()[0])
    with pytest.raises(AssertionError):
        pool.check_integrity()


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["open", "append", "cut", "share", "close"]),
            st.integers(0, 9),
            st.lists(st.integers(0, 1), max_size=9),
        ),
        max_size=80,
    )
)
def test_any_history_keeps_books_and_contents(history: list[tuple[str, int, list[int]]]) -> None:
    """Slots are written as a backend writes them; what is read must be the sequence's own text."""
    pool = BlockPool(num_blocks=7, block_len=2, max_sequence_len=12)
    slots: dict[tuple[int, int], int] = {}
    texts: dict[int, list[int]] = {}
    shared: dict[int, int] = {}

    def write(handle: int, new: list[int]) -> None:
        try:
            pool.append([(handle, len(new))])
        except CapacityError:
            return
        for token in new:
            index, slot = divmod(len(texts[handle]), 2)
            slots[int(pool.table(handle).ids[index]), slot] = token
            texts[handle].append(token)

    for action, which, tokens in history:
        if action == "open":
            handle = pool.open()
            taken = pool.take_prefix(handle, tokens)
            texts[handle], shared[handle] = tokens[:taken], taken
            write(handle, tokens[taken:])
        elif texts:
            handle = list(texts)[which % len(texts)]
            text = texts[handle]
            if action == "append":
                write(handle, tokens)
            elif action == "cut":
                kept = max(shared[handle], min(len(tokens), len(text)))
                pool.truncate(handle, kept)
                del text[kept:]
            elif action == "share":
                pool.share_prefix(handle, text)
                shared[handle] = max(shared[handle], len(text) // 2 * 2)
            else:
                pool.close(handle)
                del texts[handle]
        pool.check_integrity()
        for handle, text in texts.items():
            ids = pool.table(handle).ids
            assert [slots[int(ids[i // 2]), i % 2] for i in range(len(text))] == text
