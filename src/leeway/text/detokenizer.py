"""Token ids to text, a few at a time: nothing is shown before it is certain.

In: the ids that a step committed. Out: the new text they complete. A character whose bytes are
spread over several tokens is held back until its last byte is there; the pieces joined are what
`Tokenizer.decode(all ids, continues=True)` gives.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from typing import Protocol


class TokenBytes(Protocol):
    """Knows the bytes of its tokens; a `Tokenizer` does."""

    def token_bytes(self, token_id: int) -> bytes:
        """Return the bytes of a token; empty for special ones."""
        ...


class Detokenizer:
    """The decoding state of one sequence."""

    def __init__(self, tokenizer: TokenBytes) -> None:
        self._token_bytes = tokenizer.token_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def add(self, token_ids: Iterable[int]) -> str:
        """Return the text that these ids complete; mutates the state."""
        return self._decoder.decode(b"".join(map(self._token_bytes, token_ids)))

    def finish(self) -> str:
        """Return what is left: U+FFFD for a character that was never completed."""
        return self._decoder.decode(b"", final=True)
