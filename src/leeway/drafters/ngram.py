"""N-gram drafts (prompt lookup): what followed the last few tokens when they came before.

Looks up the longest of its n-gram sizes at the end of the text, takes the latest earlier
occurrence, and proposes what followed. Drafts are point mass. Costs a few dictionary look-ups a
token, no model.

Source: prompt lookup decoding (A. Saxena, 2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from leeway.core.types import Draft
from leeway.drafters.base import DraftAsk, TextDrafter

NGRAM_SIZES = (4, 3, 2)


@dataclass(frozen=True, slots=True)
class Match:
    """The last `size` tokens came before; `token_ids`, at least one, followed them then."""

    size: int
    token_ids: tuple[int, ...]


@dataclass(slots=True)
class _Index:
    """Where each n-gram was last followed by something: n-gram to the position behind it."""

    num_indexed: int = 0
    positions: dict[tuple[int, ...], int] = field(default_factory=dict)


class NGramDrafter(TextDrafter):
    """Proposes continuations found earlier in the same text."""

    name = "ngram"
    gives_rows = False

    def __init__(self, sizes: Sequence[int] = NGRAM_SIZES) -> None:
        assert all(size > 0 for size in sizes)
        self._sizes = tuple(sorted(sizes, reverse=True))
        self._indexes: dict[str, _Index] = {}

    def propose(self, asks: Sequence[DraftAsk]) -> list[Draft]:
        """Return the continuation of the latest earlier match, or an empty draft."""
        found = [self.look_up(ask) for ask in asks]
        return [Draft(()) if match is None else Draft(match.token_ids) for match in found]

    def forget(self, request_id: str) -> None:
        """Drop the request's index."""
        self._indexes.pop(request_id, None)

    def look_up(self, ask: DraftAsk) -> Match | None:
        """Return the longest match, of equals the latest, and up to the tokens asked for."""
        tokens = ask.token_ids
        index = self._indexes.setdefault(ask.request_id, _Index())
        for size in self._sizes:
            for end in range(max(index.num_indexed, size), len(tokens)):
                index.positions[tuple(tokens[end - size : end])] = end
        index.num_indexed = len(tokens)
        for size in self._sizes:
            start = index.positions.get(tuple(tokens[-size:])) if len(tokens) >= size else None
            if start is not None:
                return Match(size, tuple(tokens[start : start + ask.num_draft_tokens]))
        return None
