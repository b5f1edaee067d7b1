"""`leeway quality report`: the page of a run, from its files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from leeway.cli.call import Call
from leeway.cli.options import takes_settings
from leeway.cli.quality_options import FOLDER, MARGIN

_OUT = Parameter(
    metavar="DIR", show_default=False, help="Where the page goes; DIR/report without it."
)


@takes_settings()
def report(
    call: Call,
    folder: Annotated[Path, Parameter(name="DIR", help=FOLDER)],
    /,
    *,
    out: Annotated[Path | None, _OUT] = None,
    margin: Annotated[float, MARGIN] = 0.03,
) -> None:
    """Write a page with tables and charts from the files of a run."""
    _, screen = call.resolve()
    from leeway.cli.bench_report import write_files
    from leeway.quality.report import report_files
    from leeway.quality.results import read_info
    from leeway.quality.scores import check_margin, score_folder
    from leeway.report.png import png_drawer

    check_margin(margin)
    scored = score_folder(folder, margin=margin)
    info = read_info(folder)
    assert info is not None
    files = report_files(scored, info.commands, png_drawer())
    write_files(files, out or folder / "report", screen)
