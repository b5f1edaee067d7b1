"""What `leeway bench report` does: the page of a run, a ladder or a load test, from its files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from leeway.bench.ladder import has_rungs, read_ladder
from leeway.bench.load_report import has_levels, load_files, read_load_run
from leeway.bench.report import PAGE, ladder_files, report_files
from leeway.bench.runs import read_run
from leeway.bench.summary import summarise, warnings_of
from leeway.cli.bench_ladder_run import ladder_warnings
from leeway.cli.call import Screen
from leeway.core.errors import ConfigError
from leeway.report.png import png_drawer, why_no_png


def write_report(folder: Path, out: Path, screen: Screen) -> None:
    """Write the page and charts of a folder, and say where they are.

    Raises:
        ConfigError: the folder holds no whole block of one run, or the page cannot be written.
    """
    write_files(_files(folder), out, screen)


def write_files(files: Mapping[str, bytes], out: Path, screen: Screen) -> None:
    """Write a page and its charts, and say where they are.

    Raises:
        ConfigError: they cannot be written.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (out / name).write_bytes(content)
    except OSError as reason:
        raise ConfigError(f"cannot write {str(out)!r}: {reason.strerror}") from None
    missing = why_no_png()
    if missing is not None:
        screen.note(f"charts are SVG only: {missing}")
    if screen.is_json:
        screen.print_json({"page": str(out / PAGE)})
    else:
        print(out / PAGE)


def _files(folder: Path) -> dict[str, bytes]:
    draw = png_drawer()
    if has_levels(folder):
        return load_files(read_load_run(folder), draw)
    if has_rungs(folder):
        rungs = read_ladder(folder)
        return ladder_files(rungs, ladder_warnings(rungs), draw)
    windows = read_run(folder)
    summaries = summarise(windows, list(windows[0].identity["arms"]))
    return report_files(windows, summaries, warnings_of(windows, summaries), draw)
