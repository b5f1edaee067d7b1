"""Backends: the one thing asked of a model, whatever runs it.

In: for each sequence its new token ids and which of them need logits. Out: logits and final hidden
states. A backend owns its KV cache and knows nothing of laws, drafts, sampling or text.

A sequence is an integer handle. Its cached length grows by what `forward` is given and shrinks by
`truncate`; after `truncate(handle, n)` all later logits are as if the tokens behind n had never
been seen (bit for bit, except where `exact_rollback` is False).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from leeway.core.types import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class SequenceInput:
    """New tokens of one sequence in one forward.

    `num_logit_rows` asks for logits at the last so many of the new tokens (0 for a prompt chunk
    that is not the last one).
    """

    handle: int
    token_ids: Sequence[int]
    num_logit_rows: int


@dataclass(frozen=True, slots=True)
class ForwardOutput:
    """Result of one forward; valid until the next one (arrays may be views of device buffers).

    Attributes:
        logits: [sum of num_logit_rows, vocab_size], inputs in order.
        hidden: [sum of new tokens, hidden_size], final hidden states behind the last norm.
    """

    logits: FloatArray
    hidden: FloatArray


class SequenceCache(Protocol):
    """Cached sequences by handle, of a model or a draft head."""

    def open(self) -> int:
        """Return the handle of a new, empty sequence."""
        ...

    def cached_len(self, handle: int) -> int:
        """Return how many positions of the sequence are in the cache."""
        ...

    def take_prefix(self, handle: int, contents: Sequence[int]) -> int:
        """Give an empty sequence what others shared of the beginning of `contents`.

        Args:
            handle: of the sequence.
            contents: one number a position, all that decides what the cache holds there, given
                the positions before: a model's own token; a head's two tokens in one number.

        Returns:
            How many positions are then cached, whole blocks of them.
        """
        ...

    def share_prefix(self, handle: int, contents: Sequence[int]) -> None:
        """Let later sequences take over the whole blocks of these first positions.

        The caller vouches that they are cached and will never be cut; `contents` as above. Shared
        blocks outlive the sequence until their room is needed.
        """
        ...

    def truncate(self, handle: int, kept_len: int) -> None:
        """Forget all cached positions of the sequence behind the first `kept_len`."""
        ...

    def close(self, handle: int) -> None:
        """Give back everything the sequence holds."""
        ...

    def check_integrity(self) -> None:
        """Assert that no block is lost or owned by two that do not share it."""
        ...

    def describe(self) -> dict[str, str | int | float | bool]:
        """Return the settings in force (precisions, threads, row shape), for /health and doctor."""
        ...


class Backend(SequenceCache, Protocol):
    """A model that can be run forward on several sequences at once.

    `capacity_tokens` counts cache slots in all; `block_len` is the unit in which they are taken.
    `exact_rollback` says whether truncation is bit-clean. `prefill_chunk_len` is the longest
    number of new tokens one forward should carry.
    """

    vocab_size: int
    hidden_size: int
    context_len: int
    capacity_tokens: int
    block_len: int
    exact_rollback: bool
    prefill_chunk_len: int

    def forward(self, inputs: Sequence[SequenceInput]) -> ForwardOutput:
        """Append the new tokens of each sequence and return the rows asked for.

        Raises:
            CapacityError: the cache has no room; nothing was appended.
            BackendError: the model gave a number that is not finite.
        """
        ...


@dataclass(frozen=True, slots=True)
class HeadInput:
    """New positions of one sequence in one forward of a draft head.

    Attributes:
        handle: the head's own handle of the sequence.
        hidden: [num_tokens, hidden_size], states behind the last norm: the target's at a position,
            or, further along a draft, the head's own.
        token_ids: [num_tokens], the token behind each of these positions.
        num_logit_rows: logits are wanted at the last so many positions.
    """

    handle: int
    hidden: FloatArray
    token_ids: Sequence[int]
    num_logit_rows: int


class DraftHead(SequenceCache, Protocol):
    """A multi-token-prediction head that can be run on several sequences at once.

    From (state at position t, token t + 1) it gives logits of token t + 2 over its own vocabulary
    and a state to go on from. Handles, capacity, roll-back and the length of blocks are those of
    the target's `Backend`.

    `draft_token_ids` are the ids behind the logits' columns, ascending; None is the target's whole
    vocabulary. `depth` is how many tokens in a row it was made to draft.
    """

    hidden_size: int
    draft_token_ids: IntArray | None
    depth: int
    context_len: int
    prefill_chunk_len: int

    def forward(self, inputs: Sequence[HeadInput]) -> ForwardOutput:
        """Append positions; logits [sum of num_logit_rows, draft vocabulary], hidden [all, size].

        Raises:
            CapacityError: the cache has no room; nothing was appended.
            BackendError: the head gave a number that is not finite.
        """
        ...
