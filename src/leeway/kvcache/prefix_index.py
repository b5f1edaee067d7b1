"""The prefix index: which blocks hold which text, and which of them nobody uses.

In: what the positions of a sequence hold, one number a position, and the blocks they lie in. Out:
blocks that hold the same. It keeps no keys or values and does not know who owns a block.

A block is found by a keyed hash of its own positions and of the block before it, so a key names the
whole text from the start and equal blocks behind different beginnings never meet. Only full blocks
have a key. The hash's own key is drawn anew in each process.

Blocks without an owner stay findable until their room is needed; the one idle for longest goes
first.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator, Sequence

import numpy as np

_DIGEST_SIZE = 16


class PrefixIndex:
    """Blocks by content; idle ones in the order in which they may be taken away."""

    def __init__(self, block_len: int) -> None:
        self._block_len = block_len
        self._salt = secrets.token_bytes(_DIGEST_SIZE)
        self._block_of: dict[bytes, int] = {}
        self._key_of: dict[int, bytes] = {}
        self._idle: dict[int, None] = {}

    @property
    def num_idle(self) -> int:
        """Findable blocks that no sequence owns."""
        return len(self._idle)

    def __contains__(self, block: int) -> bool:
        """Return whether the block can be found by its content."""
        return block in self._key_of

    def idle_blocks(self) -> tuple[int, ...]:
        """Return the blocks that no sequence owns, the next one to be taken away first."""
        return tuple(self._idle)

    def find(self, contents: Sequence[int]) -> list[int]:
        """Return the blocks that hold the beginning of `contents`, in order, as far as known."""
        blocks = []
        for key in self._keys(contents):
            block = self._block_of.get(key)
            if block is None:
                break
            blocks.append(block)
        return blocks

    def add(self, contents: Sequence[int], blocks: Sequence[int]) -> None:
        """Make owned blocks findable; where another block holds the same, that one stays.

        Args:
            contents: what the positions hold, from the sequence's first on.
            blocks: one for each whole block of them.
        """
        for key, block in zip(self._keys(contents), blocks, strict=True):
            if key not in self._block_of and block not in self._key_of:
                self._block_of[key] = block
                self._key_of[block] = key

    def own(self, block: int) -> None:
        """Note that an idle block has an owner again; nothing for others."""
        self._idle.pop(block, None)

    def release(self, block: int) -> None:
        """Note that a findable block has lost its last owner."""
        self._idle[block] = None

    def take_idle(self) -> int:
        """Forget the block that has been idle for longest and return it."""
        block = next(iter(self._idle))
        del self._idle[block]
        del self._block_of[self._key_of.pop(block)]
        return block

    def check_integrity(self) -> None:
        """Assert that keys and blocks name one another and that idle blocks can be found.

        Raises:
            AssertionError: they do not.
        """
        named = {block: key for key, block in self._block_of.items()}
        assert named == self._key_of, "keys and blocks do not name one another"
        assert self._idle.keys() <= self._key_of.keys(), "an idle block cannot be found"

    def _keys(self, contents: Sequence[int]) -> Iterator[bytes]:
        """Yield the key of each whole block."""
        size = self._block_len
        numbers = np.asarray(contents, np.int64)
        key = b""
        for end in range(size, len(numbers) + 1, size):
            text = key + numbers[end - size : end].tobytes()
            key = hashlib.blake2b(text, key=self._salt, digest_size=_DIGEST_SIZE).digest()
            yield key
