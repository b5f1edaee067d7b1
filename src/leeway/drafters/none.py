"""No drafts: plain decoding is the verify loop with empty blocks."""

from __future__ import annotations

from collections.abc import Sequence

from leeway.core.types import Draft
from leeway.drafters.base import DraftAsk, Observation


class NoDrafter:
    """Proposes nothing."""

    name = "none"
    gives_rows = False
    reads_hidden = False

    def propose(self, asks: Sequence[DraftAsk]) -> list[Draft]:
        """Return empty drafts."""
        return [Draft(()) for _ in asks]

    def observe(self, seen: Sequence[Observation]) -> None:
        """Nothing is read of the target."""

    def forget(self, request_id: str) -> None:
        """Do nothing: there is no state."""
