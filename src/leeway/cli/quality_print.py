"""What a quality run says, on a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from leeway.cli.bench_table import print_rows
from leeway.cli.call import Screen
from leeway.quality.report import all_tables, intro_text
from leeway.quality.scores import Scored
from leeway.quality.speeds import DEFINITIONS as SPEED_DEFINITIONS
from leeway.quality.speeds import speeds_of
from leeway.quality.summary import DEFINITIONS
from leeway.quality.tables import verdict_text


def print_scored(scored: Scored, screen: Screen) -> None:
    """Print all that a run says, with the meaning of its words unless quiet."""
    out = screen.out()
    out.print(
        f"{scored.identity['suite']['name']}, {scored.identity['model']['name']}", style="bold"
    )
    out.print(intro_text(scored))
    speeds = speeds_of(scored.results, [one.name for one in scored.arms])
    for rows in all_tables(scored, speeds):
        print_rows(rows, out)
    for pair in scored.pairs:
        out.print(f"{verdict_text(pair)}.")
    for warning in scored.warnings:
        out.print(f"! {warning}", style="yellow")
    print_definitions({**DEFINITIONS, **SPEED_DEFINITIONS}, screen)


def print_definitions(definitions: Mapping[str, str], screen: Screen) -> None:
    """Print what words mean, unless quiet."""
    if screen.is_quiet:
        return
    out = screen.out()
    out.print()
    for name, meaning in definitions.items():
        out.print(f"{name}: {meaning}", style="dim")
