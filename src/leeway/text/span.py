"""Spans: whether a text stands between two markers, told token by token.

A marker is found in the bytes of the tokens, however it was cut into tokens; a special token counts
as its name. Fed tokens only move the watch forward; a copy looks ahead without moving it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from leeway.text.tokenizer import Tokenizer

_NUM_LAST_TOKENS = 64


@dataclass(slots=True)
class SpanWatch:
    """Whether the next token stands inside a span.

    The tokens of the begin marker stand outside the span, those of the end marker inside.

    Attributes:
        begin, end: the markers.
        bytes_of: what a token stands for.
        is_inside: whether a span is open behind the tokens fed so far.
        tail: the last bytes since the last marker, in which the next one may have begun.
    """

    begin: bytes
    end: bytes
    bytes_of: Callable[[int], bytes]
    is_inside: bool = False
    tail: bytes = b""

    def feed(self, token_ids: Iterable[int]) -> None:
        """Move behind these tokens."""
        for token_id in token_ids:
            text = self.tail + self.bytes_of(token_id)
            marker = self._awaited()
            at = text.find(marker)
            while at >= 0:
                text = text[at + len(marker) :]
                self.is_inside = not self.is_inside
                marker = self._awaited()
                at = text.find(marker)
            self.tail = text[len(text) - min(len(text), len(marker) - 1) :]

    def inside(self, token_ids: Sequence[int]) -> list[bool]:
        """Return for each of the tokens to come whether it stands inside, given those before it."""
        ahead = replace(self)
        found = []
        for token_id in token_ids:
            found.append(ahead.is_inside)
            ahead.feed([token_id])
        return found

    def _awaited(self) -> bytes:
        return self.end if self.is_inside else self.begin


def watch_answer(
    tokenizer: Tokenizer, begin: str, end: str, prompt_token_ids: Sequence[int]
) -> SpanWatch:
    """Return the watch of an answer.

    A prompt leaves a span open only where the begin marker is the last thing in it (white space
    apart), as a chat template writes it: markers inside a prompt are somebody's text.
    """

    def bytes_of(token_id: int) -> bytes:
        return tokenizer.token_bytes(token_id) or (tokenizer.token_text(token_id) or "").encode()

    watch = SpanWatch(begin.strip().encode(), end.strip().encode(), bytes_of)
    last = b"".join(bytes_of(token_id) for token_id in prompt_token_ids[-_NUM_LAST_TOKENS:])
    watch.is_inside = last.rstrip().endswith(watch.begin)
    return watch
