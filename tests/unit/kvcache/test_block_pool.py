import pytest
from hypothesis import given
from hypothesis import strategies as st

from leeway.core.errors import CapacityError
from leeway.kvcache import BlockPool


def blocks_of(pool: BlockPool, handle: int) -> list[int]:
    table = pool.table(handle)
    return table.ids[: table.num_blocks].tolist()


def test_blocks_are_taken_when_a_token_needs_them() -> None:
    pool = BlockPool(num_blocks=4, block_len=8, max_sequence_len=32)
    handle = pool.open()
    for new_tokens, num_blocks in ((7, 1), (1, 1), (1, 2), (0, 2), (15, 3)):
        pool.append([(handle, new_tokens)])
        assert len(blocks_of(pool, handle)) == num_blocks
        pool.check_integrity()
    assert pool.table(handle).cached_len == 24
    assert pool.num_free_blocks == 1
    assert pool.capacity_tokens == 32


def test_truncate_frees_only_whole_blocks_and_keeps_the_rest_in_order() -> None:
    pool = BlockPool(num_blocks=8, block_len=4, max_sequence_len=32)
    handle, other = pool.open(), pool.open()
    pool.append([(handle, 6), (other, 3)])
    pool.append([(handle, 10)])
    before = blocks_of(pool, handle)
    pool.truncate(handle, 5)
    assert blocks_of(pool, handle) == before[:2]
    assert pool.num_free_blocks == 8 - 2 - 1
    pool.truncate(handle, 0)
    assert blocks_of(pool, handle) == []
    pool.check_integrity()


def test_drafting_and_rolling_back_gives_the_same_blocks_as_never_drafting() -> None:
    drafted, plain = (BlockPool(8, 4, 32) for _ in range(2))
    for pool in (drafted, plain):
        pool.append([(pool.open(), 3), (pool.open(), 9)])
    drafted.append([(0, 6)])
    drafted.truncate(0, 3)
    for pool in (drafted, plain):
        pool.append([(0, 2), (1, 5)])
    assert [blocks_of(drafted, h) for h in (0, 1)] == [blocks_of(plain, h) for h in (0, 1)]


def test_handles_are_never_reused() -> None:
    pool = BlockPool(2, 4, 8)
    first = pool.open()
    pool.append([(first, 8)])
    pool.close(first)
    assert pool.open() != first
    assert pool.num_free_blocks == 2
    with pytest.raises(KeyError):
        pool.table(first)


def test_lack_of_blocks_appends_nothing_and_names_the_numbers() -> None:
    pool = BlockPool(num_blocks=3, block_len=4, max_sequence_len=16)
    first, second = pool.open(), pool.open()
    pool.append([(first, 4), (second, 1)])
    with pytest.raises(CapacityError) as error:
        pool.append([(first, 1), (second, 4)])
    assert "1 of 3 blocks of 4 tokens free" in error.value.message
    assert "needs 2" in error.value.message
    assert (pool.table(first).cached_len, pool.table(second).cached_len) == (4, 1)
    assert pool.num_free_blocks == 1
    pool.check_integrity()
    pool.append([(first, 1)])


def test_a_sequence_cannot_outgrow_its_limit() -> None:
    pool = BlockPool(num_blocks=8, block_len=4, max_sequence_len=10)
    first, second = pool.open(), pool.open()
    with pytest.raises(CapacityError, match=r"11 tokens does not fit the context of 10"):
        pool.append([(second, 3), (first, 11)])
    assert pool.table(second).cached_len == 0
    pool.append([(first, 10)])
    pool.check_integrity()


@pytest.mark.parametrize("fault", ["lost", "doubly owned", "twice free", "short"])
def test_integrity_check_finds(fault: str) -> None:
    pool = BlockPool(4, 4, 16)
    first, second = pool.open(), pool.open()
    pool.append([(first, 4), (second, 4)])
    if fault == "lost":
        pool._free.pop()
    elif fault == "doubly owned":
        pool.table(first).ids[0] = pool.table(second).ids[0]
    elif fault == "twice free":
        pool._free.append(pool._free[0])
    else:
        pool.table(first).num_blocks = 0
    with pytest.raises(AssertionError):
        pool.check_integrity()


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["open", "append", "truncate", "close"]),
            st.integers(0, 9),
            st.integers(0, 12),
        ),
        max_size=60,
    )
)
def test_any_history_keeps_the_books(history: list[tuple[str, int, int]]) -> None:
    pool = BlockPool(num_blocks=6, block_len=4, max_sequence_len=20)
    lens: dict[int, int] = {}
    for action, which, amount in history:
        if action == "open":
            lens[pool.open()] = 0
        elif lens:
            handle = list(lens)[which % len(lens)]
            if action == "append":
                try:
                    pool.append([(handle, amount)])
                    lens[handle] += amount
                except CapacityError:
                    pass
            elif action == "truncate":
                lens[handle] = min(amount, lens[handle])
                pool.truncate(handle, lens[handle])
            else:
                pool.close(handle)
                del lens[handle]
        pool.check_integrity()
        assert {handle: pool.table(handle).cached_len for handle in lens} == lens
        used = sum(-(-length // 4) for length in lens.values())
        assert pool.num_free_blocks == 6 - used
