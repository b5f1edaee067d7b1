"""Provenance: an answer's text split by where its tokens came from.

In: deltas, whose text may lag behind their tokens. Out: the same text in pieces, each with the
provenance of the token that completed it. Knows nothing of colours or of the network.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from leeway.core.types import OutputDelta, Provenance
from leeway.text.detokenizer import Detokenizer, TokenBytes

Run = tuple[str, Provenance]


@dataclass(frozen=True, slots=True)
class Piece:
    """The text that one token completed.

    `is_plain` marks a token that no draft stood before: all of plain decoding, and the first token
    of an answer.
    """

    text: str
    provenance: Provenance
    is_plain: bool = False


class ProvenanceText:
    """Splits one answer's text, delta by delta; characters wait here until they are delivered."""

    def __init__(self, tokenizer: TokenBytes) -> None:
        self._detokenizer = Detokenizer(tokenizer)
        self._waiting: deque[Piece] = deque()

    def pieces(self, delta: OutputDelta) -> list[Piece]:
        """Return the delta's text as one piece a token."""
        is_plain = delta.provenance == (Provenance.BONUS,)
        for token_id, provenance in zip(delta.token_ids, delta.provenance, strict=True):
            text = self._detokenizer.add([token_id])
            if text:
                self._waiting.append(Piece(text, provenance, is_plain))
        found: list[Piece] = []
        missing = len(delta.text)
        start = 0
        while missing and self._waiting:
            piece = self._waiting.popleft()
            if len(piece.text) > missing:
                rest = Piece(piece.text[missing:], piece.provenance, piece.is_plain)
                self._waiting.appendleft(rest)
            size = min(len(piece.text), missing)
            text = delta.text[start : start + size]
            found.append(Piece(text, piece.provenance, piece.is_plain))
            start, missing = start + size, missing - size
        if missing:
            found.append(Piece(delta.text[start:], Provenance.BONUS))
        return found

    def split(self, delta: OutputDelta) -> list[Run]:
        """Return the delta's text as runs of one provenance, neighbours merged."""
        runs: list[Run] = []
        for piece in self.pieces(delta):
            if runs and runs[-1][1] is piece.provenance:
                runs[-1] = (runs[-1][0] + piece.text, piece.provenance)
            else:
                runs.append((piece.text, piece.provenance))
        return runs
