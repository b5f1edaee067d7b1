"""Phases: whether an answer still stands in its reasoning span, told token by token.

The span is what `reasoning` splits off: it begins with the prompt's last words or as the first
thing in the answer, and ends once; markers further on are text. A marker is found in the bytes of
the tokens, however it was cut into tokens; a special token counts as its name. Fed tokens only move
the watch forward; a copy looks ahead without moving it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from leeway.text.tokenizer import Tokenizer

_NUM_LAST_TOKENS = 64


@dataclass(slots=True)
class SpanWatch:
    """Whether the next token stands inside the span.

    The tokens of the begin marker stand outside the span, those of the end marker inside.

    Attributes:
        begin, end: the markers.
        bytes_of: what a token stands for.
        phase: where the answer stands behind the tokens fed so far.
        tail: the last bytes, in which the next marker may have begun.
    """

    begin: bytes
    end: bytes
    bytes_of: Callable[[int], bytes]
    phase: Literal["start", "inside", "behind"] = "start"
    tail: bytes = b""

    def feed(self, token_ids: Iterable[int]) -> None:
        """Move behind these tokens."""
        for token_id in token_ids:
            if self.phase == "behind":
                return
            self.tail += self.bytes_of(token_id)
            if self.phase == "start":
                self._read_start()
            if self.phase == "inside":
                self._read_inside()

    def inside(self, token_ids: Sequence[int]) -> list[bool]:
        """Return for each of the tokens to come whether it stands inside, given those before it."""
        ahead = replace(self)
        found = []
        for token_id in token_ids:
            found.append(ahead.phase == "inside")
            ahead.feed([token_id])
        return found

    def _read_start(self) -> None:
        begun = self.tail.lstrip()
        if begun.startswith(self.begin):
            self.tail, self.phase = begun.removeprefix(self.begin), "inside"
        elif not self.begin.startswith(begun):
            self.phase = "behind"

    def _read_inside(self) -> None:
        if self.end in self.tail:
            self.phase = "behind"
        else:
            self.tail = self.tail[max(0, len(self.tail) - len(self.end) + 1) :]


def watch_answer(
    tokenizer: Tokenizer, begin: str, end: str, prompt_token_ids: Sequence[int]
) -> SpanWatch:
    """Return the watch of an answer.

    A prompt opens the span only where the begin marker is the last thing in it (white space apart),
    as a chat template writes it: markers inside a prompt are somebody's text.
    """

    def bytes_of(token_id: int) -> bytes:
        return tokenizer.token_bytes(token_id) or (tokenizer.token_text(token_id) or "").encode()

    watch = SpanWatch(begin.strip().encode(), end.strip().encode(), bytes_of)
    last = b"".join(bytes_of(token_id) for token_id in prompt_token_ids[-_NUM_LAST_TOKENS:])
    if last.rstrip().endswith(watch.begin):
        watch.phase = "inside"
    return watch
