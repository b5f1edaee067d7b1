"""N-gram drafts (prompt lookup): what followed the last few tokens when they came before.

Looks up the longest of its n-gram sizes at the end of the text, takes the latest earlier
occurrence, and proposes what followed; where that reaches the end of the text, which then repeats
itself, the repetition goes on. Drafts are point mass. Costs a few dictionary look-ups a
token, no model.

Source: prompt lookup decoding (A. Saxena, 2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice

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
        """Return the longest match, of equals the latest, and as many tokens as are asked for."""
        tokens = ask.token_ids
        index = self._indexes.setdefault(ask.request_id, _Index())
        for size in self._sizes:
            for end in range(max(index.num_indexed, size), len(tokens)):
                index.positions[tuple(tokens[end - size : end])] = end
        index.num_indexed = len(tokens)
        for size in self._sizes:
            start = index.positions.get(tuple(tokens[-size:])) if len(tokens) >= size else None
            if start is not None:
                length = ask.num_draft_tokens
                return Match(size, _continued(tokens[start : start + length], length))
        return None


def _continued(found: Sequence[int], length: int) -> tuple[int, ...]:
    """Return `length` tokens; where the text ends before, what is found goes round.

    A match that reaches the end of the text is one of text that repeats itself.
    """
    return tuple(islice(cycle(found), length))
