"""Tokens by where they came from: accepted draft, recovered, bonus.

On a terminal by colour and by shape (accepted underlined, recovered bold), so that it can be read
without colour; in a pipe by brackets: [accepted] {recovered} bonus.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeway.core.types import Provenance

if TYPE_CHECKING:
    from rich.console import Console

    from leeway.text.provenance import Run

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
