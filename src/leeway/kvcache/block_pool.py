"""The block pool: which cache blocks each sequence owns.

In: sequence handles and token counts. Out: block ids in order of position. It keeps the books only:
it holds no keys or values and knows neither models nor engines.

A block holds `block_len` token slots and belongs to exactly one sequence or to the free list. All
growth of one step is a single `append`, so that a step either fits whole or changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from leeway.core.errors import CapacityError


class BlockTable:
    """Blocks of one sequence: `ids[:num_blocks]`, by position; `cached_len` tokens are in use."""

    __slots__ = ("cached_len", "ids", "num_blocks")

    def __init__(self, max_blocks: int) -> None:
        self.ids: NDArray[np.int32] = np.zeros(max_blocks, np.int32)
        self.num_blocks = 0
        self.cached_len = 0


class BlockPool:
    """Hands out blocks to sequences and takes them back."""

    def __init__(self, num_blocks: int, block_len: int, max_sequence_len: int) -> None:
        """Make a pool of `num_blocks` free blocks; no sequence grows beyond `max_sequence_len`."""
        assert num_blocks > 0 and block_len > 0 and max_sequence_len > 0
        self.num_blocks = num_blocks
        self.block_len = block_len
        self.max_sequence_len = max_sequence_len
        self._free = list(range(num_blocks - 1, -1, -1))
        self._tables: dict[int, BlockTable] = {}
        self._next_handle = 0

    @property
    def num_free_blocks(self) -> int:
        """Blocks that belong to no sequence."""
        return len(self._free)

    @property
    def capacity_tokens(self) -> int:
        """Token slots in all, free or not."""
        return self.num_blocks * self.block_len

    def open(self) -> int:
        """Return the handle of a new, empty sequence. Handles are never used twice."""
        handle = self._next_handle
        self._next_handle += 1
        max_blocks = -(-self.max_sequence_len // self.block_len)
        self._tables[handle] = BlockTable(max_blocks)
        return handle

    def table(self, handle: int) -> BlockTable:
        """Return the live table of a sequence, to be read and not written."""
        return self._tables[handle]

    def append(self, growth: Iterable[tuple[int, int]]) -> None:
        """Lengthen sequences: `growth` holds (handle, number of new tokens), each handle once.

        Raises:
            CapacityError: a sequence would outgrow `max_sequence_len`, or the free blocks do not
                suffice for all of them together; nothing was appended.
        """
        planned = []
        wanted = 0
        for handle, num_tokens in growth:
            table = self._tables[handle]
            new_len = table.cached_len + num_tokens
            if new_len > self.max_sequence_len:
                raise CapacityError(
                    f"a sequence of {new_len} tokens does not fit the context of "
                    f"{self.max_sequence_len} tokens; shorten the prompt or lower max_tokens"
                )
            num_blocks = -(-new_len // self.block_len)
            wanted += max(num_blocks - table.num_blocks, 0)
            planned.append((table, new_len, num_blocks))
        free = self._free
        if wanted > len(free):
            raise CapacityError(
                f"the KV cache has {len(free)} of {self.num_blocks} blocks of {self.block_len} "
                f"tokens free and this step needs {wanted}; end other requests or give the cache "
                "more memory (--kv-memory)"
            )
        for table, new_len, num_blocks in planned:
            while table.num_blocks < num_blocks:
                table.ids[table.num_blocks] = free.pop()
                table.num_blocks += 1
            table.cached_len = new_len

    def truncate(self, handle: int, kept_len: int) -> None:
        """Keep the first `kept_len` tokens of a sequence and free the blocks behind them."""
        table = self._tables[handle]
        assert 0 <= kept_len <= table.cached_len, (kept_len, table.cached_len)
        table.cached_len = kept_len
        self._free_behind(table, -(-kept_len // self.block_len))

    def close(self, handle: int) -> None:
        """Free everything a sequence holds and forget its handle."""
        self._free_behind(self._tables.pop(handle), 0)

    def check_integrity(self) -> None:
        """Assert that every block is free or owned exactly once, and no table is too short or long.

        Raises:
            AssertionError: the books do not balance; names the block or the sequence.
        """
        owners: dict[int, str] = {}
        for block in self._free:
            assert block not in owners, f"block {block} is on the free list twice"
            owners[block] = "the free list"
        for handle, table in self._tables.items():
            needed = -(-table.cached_len // self.block_len)
            assert table.num_blocks == needed, (
                f"sequence {handle} has {table.num_blocks} blocks for {table.cached_len} tokens"
            )
            for block in table.ids[: table.num_blocks].tolist():
                assert block not in owners, (
                    f"block {block} belongs to sequence {handle} and to {owners[block]}"
                )
                owners[block] = f"sequence {handle}"
        missing = set(range(self.num_blocks)) - owners.keys()
        assert not missing, f"blocks {sorted(missing)} are lost"
        assert len(owners) == self.num_blocks, "a block outside the pool is in use"

    def _free_behind(self, table: BlockTable, num_kept: int) -> None:
        freed = table.ids[num_kept : table.num_blocks].tolist()
        freed.reverse()
        self._free.extend(freed)
        table.num_blocks = num_kept
