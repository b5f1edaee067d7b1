"""The block pool: which cache blocks each sequence owns.

In: sequence handles and token counts. Out: block ids in order of position. It keeps the books only:
it holds no keys or values and knows neither models nor engines.

A block holds `block_len` token slots. It belongs to one sequence, to several that begin alike, to
the prefix index (idle: it may be found again, or taken away when room is needed) or to the free
list. All growth of one step is a single `append`, so that a step either fits whole or changes
nothing. A shared block is full and is never written again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from leeway.core.errors import CapacityError
from leeway.kvcache.prefix_index import PrefixIndex


class BlockTable:
    """Blocks of one sequence: `ids[:num_blocks]`, by position; `cached_len` tokens are in use.

    The first `num_fixed` blocks may be shared: their content stays as it is.
    """

    __slots__ = ("cached_len", "ids", "num_blocks", "num_fixed")

    def __init__(self, max_blocks: int) -> None:
        self.ids: NDArray[np.int32] = np.zeros(max_blocks, np.int32)
        self.num_blocks = 0
        self.num_fixed = 0
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
        self._prefixes = PrefixIndex(block_len)
        self._num_owners: Counter[int] = Counter()
        self._next_handle = 0

    @property
    def num_free_blocks(self) -> int:
        """Blocks that belong to no sequence, idle ones included."""
        return len(self._free) + self._prefixes.num_idle

    @property
    def num_idle_blocks(self) -> int:
        """Blocks that belong to no sequence and hold text that may be found again."""
        return self._prefixes.num_idle

    @property
    def num_open(self) -> int:
        """Number of live sequences."""
        return len(self._tables)

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
        if wanted > self.num_free_blocks:
            raise CapacityError(
                f"the KV cache has {self.num_free_blocks} of {self.num_blocks} blocks of "
                f"{self.block_len} tokens free and this step needs {wanted}; end other requests or "
                "give the cache more memory (--kv-memory)"
            )
        for table, new_len, num_blocks in planned:
            while table.num_blocks < num_blocks:
                table.ids[table.num_blocks] = self._take_free()
                table.num_blocks += 1
            table.cached_len = new_len

    def take_prefix(self, handle: int, contents: Sequence[int]) -> int:
        """Give an empty sequence the shared blocks that hold the beginning of `contents`.

        Returns:
            The number of tokens that are then cached, a multiple of `block_len`.
        """
        table = self._tables[handle]
        assert table.num_blocks == 0, "only an empty sequence can take over blocks"
        blocks = self._prefixes.find(contents)
        for block in blocks:
            self._prefixes.own(block)
            self._num_owners[block] += 1
        table.ids[: len(blocks)] = blocks
        table.num_blocks = table.num_fixed = len(blocks)
        table.cached_len = len(blocks) * self.block_len
        return table.cached_len

    def share_prefix(self, handle: int, contents: Sequence[int]) -> None:
        """Let later sequences take over the full blocks that hold `contents`.

        The caller vouches that these first tokens of the sequence are cached for good. What a
        position holds is whatever decides its keys and values together with all before it.
        """
        table = self._tables[handle]
        assert len(contents) <= table.cached_len, (len(contents), table.cached_len)
        num_full = len(contents) // self.block_len
        if num_full > table.num_fixed:
            blocks: list[int] = table.ids[:num_full].tolist()
            self._prefixes.add(contents, blocks)
            for block in blocks[table.num_fixed :]:
                self._num_owners[block] = 1
            table.num_fixed = num_full

    def truncate(self, handle: int, kept_len: int) -> None:
        """Keep the first `kept_len` tokens of a sequence and free the blocks behind them."""
        table = self._tables[handle]
        assert 0 <= kept_len <= table.cached_len, (kept_len, table.cached_len)
        is_whole = kept_len % self.block_len == 0
        assert is_whole or kept_len >= table.num_fixed * self.block_len, "a shared block is cut"
        table.cached_len = kept_len
        self._free_behind(table, -(-kept_len // self.block_len))

    def close(self, handle: int) -> None:
        """Free everything a sequence holds and forget its handle."""
        self._free_behind(self._tables.pop(handle), 0)

    def check_integrity(self) -> None:
        """Assert that no block is lost, and that none has two owners unless it may be shared.

        Raises:
            AssertionError: the books do not balance; names the block or the sequence.
        """
        self._prefixes.check_integrity()
        owners: dict[int, str] = {}
        for name, unowned in (
            ("the free list", self._free),
            ("the idle blocks", self._prefixes.idle_blocks()),
        ):
            for block in unowned:
                assert block not in owners, f"block {block} is on {owners[block]} and on {name}"
                owners[block] = name
        assert not any(block in self._prefixes for block in self._free), "a free block has a key"
        num_owners: Counter[int] = Counter()
        for handle, table in self._tables.items():
            needed = -(-table.cached_len // self.block_len)
            assert table.num_blocks == needed, (
                f"sequence {handle} has {table.num_blocks} blocks for {table.cached_len} tokens"
            )
            assert table.num_fixed * self.block_len <= table.cached_len
            blocks = table.ids[: table.num_blocks].tolist()
            for block in blocks[table.num_fixed :]:
                assert block not in owners and block not in num_owners, (
                    f"block {block} belongs to sequence {handle} and to {owners[block]}"
                )
                assert block not in self._prefixes, f"block {block} is shared and may be written"
                owners[block] = f"sequence {handle}"
            for block in blocks[: table.num_fixed]:
                assert block in num_owners or block not in owners, (
                    f"block {block} is shared by sequence {handle} and belongs to {owners[block]}"
                )
                owners[block] = f"sequence {handle}"
                num_owners[block] += 1
        assert num_owners == self._num_owners, "owners of shared blocks are miscounted"
        missing = set(range(self.num_blocks)) - owners.keys()
        assert not missing, f"blocks {sorted(missing)} are lost"
        assert len(owners) == self.num_blocks, "a block outside the pool is in use"

    def _take_free(self) -> int:
        """Return a block to write to; one that is idle only when no other is left."""
        return self._free.pop() if self._free else self._prefixes.take_idle()

    def _free_behind(self, table: BlockTable, num_kept: int) -> None:
        """Give up the blocks behind the first `num_kept`, shared ones with the last one first."""
        freed = table.ids[max(num_kept, table.num_fixed) : table.num_blocks].tolist()
        freed.reverse()
        self._free.extend(freed)
        table.num_blocks = num_kept
        while table.num_fixed > num_kept:
            table.num_fixed -= 1
            self._disown(int(table.ids[table.num_fixed]))

    def _disown(self, block: int) -> None:
        """Take one owner from a fixed block."""
        self._num_owners[block] -= 1
        if self._num_owners[block] > 0:
            return
        del self._num_owners[block]
        if block in self._prefixes:
            self._prefixes.release(block)
        else:
            self._free.append(block)
