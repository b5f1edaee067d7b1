"""No drafts: plain decoding is the verify loop with empty blocks."""

from __future__ import annotations

from collections.abc import Sequence

from leeway.core.types import Draft
from leeway.drafters.base import DraftAsk, TextDrafter


class NoDrafter(TextDrafter):
    """Proposes nothing."""

    name = "none"
    gives_rows = False

    def propose(self, asks: Sequence[DraftAsk]) -> list[Draft]:
        """Return empty drafts."""
        return [Draft(()) for _ in asks]

    def forget(self, request_id: str) -> None:
        """Do nothing: there is no state."""
