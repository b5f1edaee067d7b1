"""Tokens by where they came from: accepted draft, recovered, bonus.

On a terminal by colour and by shape (accepted underlined, recovered bold), so that it can be read
without colour; in a pipe by brackets: [accepted] {recovered} bonus.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from leeway.core.types import OutputDelta, Provenance

if TYPE_CHECKING:
    from rich.console import Console

    from leeway.text.tokenizer import Tokenizer

STYLES = {
    Provenance.ACCEPTED: "green underline",
    Provenance.RECOVERED: "bold magenta",
    Provenance.BONUS: "",
}
BRACKETS = {
    Provenance.ACCEPTED: ("[", "]"),
    Provenance.RECOVERED: ("{", "}"),
    Provenance.BONUS: ("", ""),
}

Run = tuple[str, Provenance]


class ProvenanceText:
    """Splits an answer's text by provenance, delta by delta.

    A delta's text may lag behind its tokens; characters wait here until they are delivered, each
    with the provenance of the token that completed it.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        from leeway.text.detokenizer import Detokenizer

        self._detokenizer = Detokenizer(tokenizer)
        self._waiting: deque[Run] = deque()

    def split(self, delta: OutputDelta) -> list[Run]:
        """Return the delta's text as runs of one provenance, neighbours merged."""
        for token_id, provenance in zip(delta.token_ids, delta.provenance, strict=True):
            piece = self._detokenizer.add([token_id])
            if piece:
                self._waiting.append((piece, provenance))
        runs: list[Run] = []
        missing = len(delta.text)
        start = 0
        while missing and self._waiting:
            piece, provenance = self._waiting.popleft()
            if len(piece) > missing:
                self._waiting.appendleft((piece[missing:], provenance))
            size = min(len(piece), missing)
            _append(runs, delta.text[start : start + size], provenance)
            start, missing = start + size, missing - size
        if missing:
            _append(runs, delta.text[start:], Provenance.BONUS)
        return runs


def _append(runs: list[Run], text: str, provenance: Provenance) -> None:
    if runs and runs[-1][1] is provenance:
        runs[-1] = (runs[-1][0] + text, provenance)
    else:
        runs.append((text, provenance))


def print_runs(console: Console, runs: list[Run]) -> None:
    """Print runs as they come, without a line end."""
    for text, provenance in runs:
        if console.is_terminal:
            console.print(text, style=STYLES[provenance], end="", soft_wrap=True)
        else:
            opening, closing = BRACKETS[provenance]
            console.print(f"{opening}{text}{closing}", end="", soft_wrap=True)


def print_legend(console: Console) -> None:
    """Print what the marks mean."""
    if console.is_terminal:
        for provenance, style in STYLES.items():
            console.print(provenance.value, style=style, end="")
            console.print("  ", end="")
        console.print("(where each token came from)", style="dim")
    else:
        console.print("[accepted] {recovered} bonus: where each token came from")
