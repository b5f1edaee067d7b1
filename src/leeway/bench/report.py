"""The report of a run: one page in two forms and the charts it shows, drawn from windows only.

In: windows and their summaries. Out: file contents by name. Writes nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from leeway.bench.categories import category_tables
from leeway.bench.charts import charts_of
from leeway.bench.knobs import dial_rows, knob_series
from leeway.bench.ladder import DEFINITIONS as LADDER_DEFINITIONS
from leeway.bench.ladder import Rung, ladder_chart, ladder_tables
from leeway.bench.summary import DEFINITIONS, ArmSummary
from leeway.bench.tables import cell_text, sample_text, tables
from leeway.bench.window import Window
from leeway.report.page import HTML, Page, page_files

Draw = Callable[[str], bytes]
PAGE = HTML
"""The one to open."""


def report_files(
    windows: Sequence[Window],
    summaries: Sequence[ArmSummary],
    warnings: Sequence[str],
    draw: Draw | None = None,
) -> dict[str, bytes]:
    """Return the page, its charts and their list, by file name.

    Void arms are in the page and in no chart. `draw` makes PNG bytes of SVG text.
    """
    sweeps = [dial_rows(series, summaries[0].name) for series in knob_series(summaries)]
    return page_files(
        Page(
            title=f"Bench: {windows[0].identity['model']['name']}",
            intro=_intro(windows, summaries[0]),
            warnings=warnings,
            tables=[*tables(summaries), *category_tables(windows, summaries), *sweeps],
            charts=charts_of(windows, summaries),
            definitions=DEFINITIONS,
            arms={one.name: one.definition for one in summaries},
            commands=commands(windows),
        ),
        draw,
    )


def ladder_files(
    rungs: Sequence[Rung], warnings: Sequence[str], draw: Draw | None = None
) -> dict[str, bytes]:
    """Return the page of a ladder, its chart and their list, by file name."""
    windows, first = [one for rung in rungs for one in rung.windows], rungs[0].summaries[0]
    chart = ladder_chart(rungs)
    return page_files(
        Page(
            title=f"Ladder: {windows[0].identity['model']['name']}",
            intro=f"On each rung: {_intro(windows, first)}",
            warnings=warnings,
            tables=ladder_tables(rungs),
            charts=[] if chart is None else [chart],
            definitions={**DEFINITIONS, **LADDER_DEFINITIONS},
            arms={one.name: one.definition for one in rungs[0].summaries},
            commands=commands(windows),
        ),
        draw,
    )


def commands(windows: Sequence[Window]) -> list[str]:
    """Return the command lines that measured these windows, each once."""
    typed = (one.command for one in windows)
    return list(dict.fromkeys(command for command in typed if command is not None))


def _intro(windows: Sequence[Window], first: ArmSummary) -> str:
    identity = windows[0].identity
    machine = identity["machine"]
    return (
        f"{cell_text(windows)}. {sample_text(first)}. Leeway "
        f"{identity['version']} on {machine['cpu_model']}, {machine['usable_threads']} threads."
    )
