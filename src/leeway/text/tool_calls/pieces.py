"""What reading an answer with tool calls gives: pieces of content and of calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class CallPiece:
    """New text of one call.

    Attributes:
        index: which call of the answer, from 0.
        name: of the function, with the call's first piece; later None.
        arguments: new text of the arguments' JSON.
    """

    index: int
    name: str | None = None
    arguments: str = ""


@dataclass(slots=True)
class Pieces:
    """What new text of an answer comes to."""

    content: str = ""
    calls: list[CallPiece] = field(default_factory=list)


def open_len(text: str, tag: str) -> int:
    """Return the length of the longest end of `text` that begins `tag` and does not complete it."""
    for length in range(min(len(tag) - 1, len(text)), 0, -1):
        if tag.startswith(text[-length:]):
            return length
    return 0


def joined_calls(pieces: Sequence[CallPiece]) -> list[CallPiece]:
    """Return one piece a call, in order."""
    calls: dict[int, CallPiece] = {}
    for piece in pieces:
        before = calls.get(piece.index)
        if before is None:
            calls[piece.index] = piece
        else:
            arguments = before.arguments + piece.arguments
            calls[piece.index] = CallPiece(piece.index, before.name, arguments)
    return [calls[index] for index in sorted(calls)]
