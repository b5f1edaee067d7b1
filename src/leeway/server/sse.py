"""Server-sent events: bytes of one frame."""

from __future__ import annotations

import msgspec

KEEP_ALIVE = b": keep-alive\n\n"
DONE = b"data: [DONE]\n\n"


def frame(data: bytes) -> bytes:
    """Return an event without a name."""
    return b"data: " + data + b"\n\n"


def event(name: str, content: object) -> bytes:
    """Return a named event with a JSON object."""
    return b"event: " + name.encode() + b"\n" + frame(msgspec.json.encode(content))
