"""`leeway bench`: arms measured side by side, and the report of what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from leeway.cli.bench_compare import compare
from leeway.cli.bench_dial import dial
from leeway.cli.bench_ladder import ladder
from leeway.cli.bench_load import load
from leeway.cli.bench_options import (
    ARM,
    DEFAULT_ARMS,
    IGNORE_EOS,
    LIMIT,
    OUT,
    PER_CATEGORY,
    PROMPT_LEN,
    PROMPTS,
    ROUNDS,
    SAMPLING,
    SEEDS,
    WORKLOAD,
    Asked,
)
from leeway.cli.bench_rivals import rivals
from leeway.cli.call import Call
from leeway.cli.options import group_of_verbs, takes_settings

app = group_of_verbs("bench", "Measure speed and loss, arms side by side in one process.")
_REPORT_OUT = Parameter(
    metavar="DIR", show_default=False, help="Where the page goes; DIR/report without it."
)


@app.command
@takes_settings("drafting", "model", only=SAMPLING)
def run(
    call: Call,
    *,
    arm: Annotated[list[str] | None, ARM] = None,
    prompts: Annotated[Path | None, PROMPTS] = None,
    workload: Annotated[str | None, WORKLOAD] = None,
    limit: Annotated[int | None, LIMIT] = None,
    per_category: Annotated[int | None, PER_CATEGORY] = None,
    prompt_len: Annotated[int | None, PROMPT_LEN] = None,
    seeds: Annotated[int, SEEDS] = 3,
    rounds: Annotated[int, ROUNDS] = 1,
    ignore_eos: Annotated[bool, IGNORE_EOS] = False,
    out: Annotated[Path | None, OUT] = None,
) -> int:
    """Run every prompt and seed under each arm, interleaved, and compare arms with intervals.

    The target is loaded once for all arms. Each arm first runs one uncounted request; then every
    prompt and seed is run by all arms, one behind the other. Ctrl-C prints what was measured so
    far; the same command with the same --out goes on from there.
    """
    from leeway.cli.bench_run import run_arms

    asked = Asked(
        prompts, limit, prompt_len, seeds, rounds, ignore_eos, out, workload, per_category
    )
    return run_arms(call, arm or DEFAULT_ARMS, asked)


@app.command
@takes_settings()
def report(
    call: Call,
    folder: Annotated[Path, Parameter(name="DIR", help="A folder that --out filled.")],
    /,
    *,
    out: Annotated[Path | None, _REPORT_OUT] = None,
) -> None:
    """Write a page with tables and charts from the files of a run, a ladder or a load test."""
    _, screen = call.resolve()
    from leeway.cli.bench_report import write_report

    write_report(folder, out or folder / "report", screen)


app.command(dial)
app.command(ladder)
app.command(compare)
app.command(load)
app.command(rivals)
