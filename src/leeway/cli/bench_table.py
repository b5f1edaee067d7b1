"""The tables of a bench run on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from leeway.bench.categories import category_tables
from leeway.bench.knobs import dial_rows, knob_series
from leeway.bench.summary import DEFINITIONS, ArmSummary
from leeway.bench.tables import Rows, cell_text, sample_text, tables
from leeway.bench.window import Window
from leeway.cli.call import Screen

if TYPE_CHECKING:
    from rich.console import Console


_WIDEST = 1000


def print_tables(
    windows: Sequence[Window],
    summaries: Sequence[ArmSummary],
    warnings: Sequence[str],
    screen: Screen,
) -> None:
    """Print all that a run says, with the meaning of its words unless quiet."""
    out = screen.out()
    identity = windows[0].identity
    out.print(f"{identity['model']['name']}: {cell_text(windows)}", style="bold")
    out.print(sample_text(summaries[0]))
    sweeps = [dial_rows(series, summaries[0].name) for series in knob_series(summaries)]
    for rows in (*tables(summaries), *category_tables(windows, summaries), *sweeps):
        print_rows(rows, out)
    for warning in warnings:
        out.print(f"! {warning}", style="yellow")
    if not screen.is_quiet:
        out.print()
        for name, meaning in DEFINITIONS.items():
            out.print(f"{name}: {meaning}", style="dim")


def print_rows(rows: Rows, out: Console) -> None:
    """Print a table, its head first."""
    from rich import box
    from rich.table import Table

    head, *body = rows
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for index, title in enumerate(head):
        is_number = index > 0 and title != "guarantee"
        table.add_column(title, justify="right" if is_number else "left", no_wrap=True)
    for row in body:
        table.add_row(*row)
    width = out.width
    out.width = max(
        width, out.measure(table, options=out.options.update(max_width=_WIDEST)).maximum
    )
    try:
        out.print(table)  # figures are never cut off: a line that is too long is the lesser evil
    finally:
        out.width = width
