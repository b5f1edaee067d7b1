"""Capture: what the target saw while it answered, as training data.

`CaptureDrafter` takes the place of a drafter that reads hidden states and drafts nothing: what it
is shown is exactly what a draft head will be shown. `dataset` keeps finished answers on disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from leeway.core.types import Draft, FloatArray
from leeway.drafters.base import DraftAsk, Observation


@dataclass(slots=True)
class Captured:
    """One answer: `token_ids` [n + 1] and `hidden` [n, hidden_size], of all but the last token."""

    request_id: str
    num_prompt_tokens: int = 0
    token_ids: list[int] = field(default_factory=list)
    hidden: list[FloatArray] = field(default_factory=list)

    @property
    def num_positions(self) -> int:
        """Positions with a state."""
        return sum(len(rows) for rows in self.hidden)


class CaptureDrafter:
    """Drafts nothing and keeps, in half precision, what it is shown."""

    name = "capture"
    gives_rows = True
    reads_hidden = True

    def __init__(self) -> None:
        self._open: dict[str, Captured] = {}
        self.finished: list[Captured] = []

    def start(self, request_id: str, token_ids: Sequence[int], num_cached: int) -> int:
        """Nothing may be missing."""
        del request_id, token_ids, num_cached
        return 0

    def propose(self, asks: Sequence[DraftAsk]) -> list[Draft]:
        """Return empty drafts; the first time the answer has one token."""
        for ask in asks:
            kept = self._open[ask.request_id]
            if kept.num_prompt_tokens == 0:
                kept.num_prompt_tokens = len(ask.token_ids) - 1
        return [Draft(()) for _ in asks]

    def observe(self, seen: Sequence[Observation]) -> None:
        """Keep the states; the last forward of an answer is not shown and not needed."""
        for one in seen:
            if one.start == 0:
                before = self._open.get(one.request_id, Captured(one.request_id))
                self._open[one.request_id] = replace(before, hidden=[])
            kept = self._open[one.request_id]
            kept.hidden.append(one.hidden.astype(np.float16))
            kept.token_ids = list(one.token_ids[: one.start + len(one.hidden) + 1])

    def share(self, request_id: str) -> None:
        """Nothing is cached."""

    def suspend(self, request_id: str) -> None:
        """Keep what is known: the states are shown again from the first on."""

    def give_up(self, request_id: str) -> bool:
        """Nothing fails and nothing drafts."""
        del request_id
        return False

    def forget(self, request_id: str) -> None:
        """Close a request's capture."""
        kept = self._open.pop(request_id, None)
        if kept is not None:
            self.finished.append(kept)
