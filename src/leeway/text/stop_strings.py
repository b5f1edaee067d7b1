"""Where an answer's text must end: at the first stop string, wherever the chunks are cut.

In: pieces of text. Out: the text that is safe to deliver, and whether a stop string ended it. The
stop string itself is never delivered; text that may be the beginning of one is held back. The
result depends on the joined text alone: the stop string that is *complete* first wins, and of
several that end at the same character the longest.
"""

from __future__ import annotations

from leeway.core.errors import RequestError


class StopStrings:
    """The matching state of one sequence; `matched` is the stop string that ended it."""

    def __init__(self, stops: tuple[str, ...]) -> None:
        """Prepare to look for `stops`.

        Raises:
            RequestError: one of them is empty.
        """
        if any(not stop for stop in stops):
            raise RequestError("stop must not contain an empty string; remove it", param="stop")
        self.matched: str | None = None
        self._stops = stops
        self._held = ""
        self._is_stopped = False

    def add(self, text: str) -> tuple[str, bool]:
        """Return (text safe to deliver, whether a stop string is complete); mutates the state."""
        if self._is_stopped:
            return "", True
        if not self._stops:
            return text, False
        text = self._held + text
        match = self._first_match(text)
        if match is not None:
            begin, self.matched = match
            self._held, self._is_stopped = "", True
            return text[:begin], True
        safe_len = len(text) - self._open_len(text)
        self._held = text[safe_len:]
        return text[:safe_len], False

    def finish(self) -> str:
        """Return the text held back, since no more can complete a stop string."""
        held, self._held = self._held, ""
        return held

    def _first_match(self, text: str) -> tuple[int, str] | None:
        """Return where the stop string that is complete first begins, and which one it is."""
        matches = [
            (begin + len(stop), begin, stop)
            for stop in self._stops
            if (begin := text.find(stop)) >= 0
        ]
        return min(matches)[1:] if matches else None

    def _open_len(self, text: str) -> int:
        """Return the length of the longest end of `text` that begins a stop string."""
        longest = max(map(len, self._stops)) - 1
        for length in range(min(longest, len(text)), 0, -1):
            if any(stop.startswith(text[-length:]) for stop in self._stops):
                return length
        return 0
