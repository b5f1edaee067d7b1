"""Reasoning apart from the answer: what stands between <think> and </think>.

In: an answer's text, in pieces. Out: its reasoning and the rest, without the tags and the white
space right behind them. The result depends on the joined text alone; text that may be the beginning
of a tag is held back. Reasoning can only come first: a tag further on is text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from leeway.core.limits import PHASE_BEGIN, PHASE_END
from leeway.text.tool_calls.pieces import open_len

OPEN, CLOSE = PHASE_BEGIN, PHASE_END


def begins_inside(prompt: str) -> bool:
    """Return whether a prompt ends with an open tag, so that the answer begins with reasoning."""
    return prompt.rstrip().endswith(OPEN)


def count_tokens(texts: Iterable[str], *, is_inside: bool) -> int:
    """Return how many tokens of an answer are reasoning, those of the tags included.

    Args:
        texts: what each token adds to the text.
        is_inside: whether the prompt has opened the tag.
    """
    split = ReasoningSplit(is_inside=is_inside)
    num_reasoning = 0
    for number, text in enumerate(texts, 1):
        was_reasoning = split.is_reasoning
        split.add(text)
        if was_reasoning or split.is_reasoning:
            num_reasoning = number
    return num_reasoning


class ReasoningSplit:
    """The reading state of one answer."""

    def __init__(self, *, is_inside: bool) -> None:
        """Begin; `is_inside` where the prompt has opened the tag."""
        self._held = ""
        self._state: Literal["start", "inside", "behind"] = "inside" if is_inside else "start"
        self._is_behind_tag = is_inside

    @property
    def is_reasoning(self) -> bool:
        """Whether the text so far ends within the reasoning."""
        return self._state == "inside"

    def add(self, text: str) -> tuple[str, str]:
        """Return (reasoning, answer) that new text comes to; mutates the state."""
        self._held += text
        if self._state == "start" and not self._read_start():
            return "", ""
        reasoning = self._read_inside() if self._state == "inside" else ""
        answer = self._take(len(self._held)) if self._state == "behind" else ""
        return reasoning, answer

    def finish(self) -> tuple[str, str]:
        """Return what was held back, since no more comes."""
        is_inside = self._state == "inside"
        held, self._held = self._held, ""
        return (held, "") if is_inside else ("", held)

    def _read_start(self) -> bool:
        """Find out whether the answer begins with the tag; return whether that is known."""
        begun = self._held.lstrip()
        if begun.startswith(OPEN):
            self._held, self._state = begun.removeprefix(OPEN), "inside"
            self._is_behind_tag = True
            return True
        if OPEN.startswith(begun):
            return False
        self._state = "behind"
        return True

    def _read_inside(self) -> str:
        before, tag, behind = self._held.partition(CLOSE)
        if not tag:
            return self._take(len(before) - open_len(before, CLOSE))
        self._held = before
        reasoning = self._take(len(before))
        self._held, self._state, self._is_behind_tag = behind, "behind", True
        return reasoning

    def _take(self, length: int) -> str:
        """Return so much of what is held, without the white space right behind a tag."""
        taken, self._held = self._held[:length], self._held[length:]
        if self._is_behind_tag:
            taken = taken.lstrip()
            self._is_behind_tag = not taken
        return taken
