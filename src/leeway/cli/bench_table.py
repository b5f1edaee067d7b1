"""The tables of a bench run on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from leeway.bench.summary import DEFINITIONS, ArmSummary
from leeway.bench.tables import sample_text, sampling_text, tables
from leeway.bench.window import Window
from leeway.cli.call import Screen


def print_tables(
    windows: Sequence[Window],
    summaries: Sequence[ArmSummary],
    warnings: Sequence[str],
    screen: Screen,
) -> None:
    """Print all that a run says, with the meaning of its words unless quiet."""
    from rich import box
    from rich.table import Table

    out = screen.out()
    identity = windows[0].identity
    out.print(f"{identity['model']['name']}: {sampling_text(identity['sampling'])}", style="bold")
    out.print(sample_text(summaries[0]))
    for head, *rows in tables(summaries):
        table = Table(
            box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold"
        )
        for index, title in enumerate(head):
            is_number = index > 0 and title != "guarantee"
            table.add_column(title, justify="right" if is_number else "left", no_wrap=True)
        for row in rows:
            table.add_row(*row)
        out.print(table)
    for warning in warnings:
        out.print(f"! {warning}", style="yellow")
    if not screen.is_quiet:
        out.print()
        for name, meaning in DEFINITIONS.items():
            out.print(f"{name}: {meaning}", style="dim")
