"""Draft heads: what every multi-token-prediction head is turned into, whatever its format.

A head predicts from the target's final hidden state at position t and the token at t + 1 the token
at t + 2; applied to its own state it goes further. Form of DeepSeek-V3 (arXiv 2412.19437, section
2.2), MiMo and Qwen3-Next:

    rows  = project [embed_norm(embedding of token t + 1) | hidden_norm(state at t)]
    rows  = decoder layers of the target's own kind, with a cache of their own
    state = final_norm(rows)                 what the next depth goes on from
    logits = output state

States are behind the last norm throughout: the target's own and the head's.

Canonical tensor names, float32 like those of `models.base`:

    embed_norm, hidden_norm    [hidden_size]
    project                    [hidden_size, 2 * hidden_size], embedding columns first
    layers.N.*                 as in `models.base`
    final_norm                 [hidden_size]
    embed                      [vocab_size, hidden_size]; absent: the target's
    output                     [num_draft_tokens, hidden_size]; absent: the target's rows
    rope_factors               as in `models.base`; absent: the target's
    state_gain                 [hidden_size]; only where a head reads states from before the
                               target's last norm, whose gain this is: states that come in are
                               divided by it, and state = RMS-normed rows times it, while logits
                               still come from final_norm(rows)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from leeway.models.base import ArchitectureSpec


@dataclass(frozen=True, slots=True)
class HeadSpec:
    """The numbers that determine a draft head.

    Attributes:
        decoder: the head's own layers; vocabulary, hidden size and context are the target's.
        depth: how many tokens in a row it was made to draft.
        draft_token_ids: ids that it can draft, ascending, int64; None is the whole vocabulary.
        target_sha256: checksum of the one model it fits; None where it is part of that model.
        training: how it was made, as its file tells; empty for a head that came with its model.
    """

    decoder: ArchitectureSpec
    depth: int
    draft_token_ids: NDArray[np.int64] | None
    target_sha256: str | None
    training: Mapping[str, Any]


class HeadFiles(Protocol):
    """An opened head: tensors are read when asked for."""

    name: str
    spec: HeadSpec

    def tensor(self, name: str) -> NDArray[np.float32]:
        """Return one tensor by canonical name. Raises ModelError naming a missing tensor."""
        ...

    def has_tensor(self, name: str) -> bool:
        """Return whether a tensor of this canonical name exists."""
        ...

    def sha256(self) -> str:
        """Return the checksum that identifies the head (hex)."""
        ...
