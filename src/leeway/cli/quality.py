"""`leeway quality`: what a law costs, per position and on tasks, and what a run could have seen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from leeway.cli.bench_options import SAMPLING
from leeway.cli.call import Call
from leeway.cli.options import group_of_verbs, takes_settings
from leeway.cli.quality_compare import compare
from leeway.cli.quality_likelihood import likelihood
from leeway.cli.quality_martingale import martingale
from leeway.cli.quality_options import (
    ALLOW_UNSANDBOXED,
    ARM,
    DATA_DIR,
    DEFAULT_ARMS,
    MARGIN,
    OUT,
    SAMPLES,
    SAVE_COMPLETIONS,
    SUITE,
    TASKS,
    Asked,
)
from leeway.cli.quality_plan import plan
from leeway.cli.quality_report import report
from leeway.cli.quality_rescore import rescore
from leeway.cli.quality_suites import suites

app = group_of_verbs(
    "quality", "Measure what a law costs: on tasks, and against the target's own rows."
)


@app.command
@takes_settings("drafting", "model", only=(*SAMPLING, "seed"))
def run(
    call: Call,
    *,
    suite: Annotated[str, SUITE],
    arm: Annotated[list[str] | None, ARM] = None,
    tasks: Annotated[int | None, TASKS] = None,
    samples: Annotated[int, SAMPLES] = 1,
    data_dir: Annotated[Path | None, DATA_DIR] = None,
    out: Annotated[Path | None, OUT] = None,
    save_completions: Annotated[bool, SAVE_COMPLETIONS] = False,
    allow_unsandboxed: Annotated[bool, ALLOW_UNSANDBOXED] = False,
    margin: Annotated[float, MARGIN] = 0.03,
) -> int:
    """Ask the tasks of a suite under each arm, score the answers, and compare arms in pairs.

    The seed of a task and sample is the same in every arm. Sample by sample, one arm runs behind
    another, `--max-num-seqs` requests at once. Without `--max-tokens` every task has its own.
    Ctrl-C prints what was answered so far; the same command with the same --out goes on from
    there, answer by answer.
    """
    from leeway.cli.quality_run import run_suite

    asked = Asked(suite, tasks, samples, data_dir, out, save_completions, allow_unsandboxed, margin)
    return run_suite(call, arm or DEFAULT_ARMS, asked)


app.command(compare)
app.command(report)
app.command(rescore)
app.command(plan)
app.command(suites)
app.command(martingale)
app.command(likelihood)
