"""`leeway quality rescore`: saved completions scored again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from leeway.cli.call import Call, Screen
from leeway.cli.options import takes_settings
from leeway.cli.quality_options import ALLOW_UNSANDBOXED, DATA_DIR, SUITE

if TYPE_CHECKING:
    from leeway.quality.rescore import Rescored
    from leeway.quality.summary import Rate

_FILE = Parameter(
    name="FILE",
    help="A folder or file that `quality run --save-completions` wrote, or samples in evalplus's "
    'form: {"task_id": ..., "solution": PROGRAM} or {"task_id": ..., "completion": TEXT}.',
)


@takes_settings()
def rescore(
    call: Call,
    file: Annotated[Path, _FILE],
    /,
    *,
    suite: Annotated[str, SUITE],
    data_dir: Annotated[Path | None, DATA_DIR] = None,
    allow_unsandboxed: Annotated[bool, ALLOW_UNSANDBOXED] = False,
) -> None:
    """Score saved completions again: with a newer scorer, or those of another engine."""
    config, screen = call.resolve()
    from leeway.bench.machine import read_machine
    from leeway.quality.rescore import read_saved, strict_rates
    from leeway.quality.rescore import rescore as score_again
    from leeway.quality.sandbox import open_sandbox
    from leeway.quality.suites.registry import suite as named

    chosen, saved = named(suite), read_saved(file)
    data = chosen.load(data_dir, config.engine.cache_dir)
    sandbox = open_sandbox(allow_unsandboxed=allow_unsandboxed) if chosen.needs_sandbox else None
    results = score_again(saved, chosen, data, sandbox, num_scorers=read_machine().usable_threads)
    rates = strict_rates(results)
    if screen.is_json:
        screen.print_json(_as_json(results, rates, chosen.name, data.sha256))
    else:
        _print(results, rates, screen)


def _as_json(
    results: list[Rescored], rates: dict[str, Rate], suite: str, sha256: str
) -> dict[str, object]:
    from dataclasses import asdict

    return {
        "suite": suite,
        "sha256": sha256,
        "strict": {arm: asdict(rate) for arm, rate in rates.items()},
        "results": [
            {
                "arm": one.saved.arm,
                "task_id": one.saved.task_id,
                "sample": one.saved.sample,
                "finish_reason": one.saved.finish_reason,
                "is_correct": one.score.is_correct,
                "is_strictly_correct": one.is_strictly_correct,
                "detail": one.score.detail,
                "parts": dict(one.score.parts),
            }
            for one in results
        ],
    }


def _print(results: list[Rescored], rates: dict[str, Rate], screen: Screen) -> None:
    from leeway.cli.bench_table import print_rows
    from leeway.quality.tables import percent_text

    rows = [["arm", "strict", "95 %", "answers"]]
    rows += [
        [
            arm,
            f"{percent_text(rate.value)} %",
            f"{percent_text(rate.low)} to {percent_text(rate.high)}",
            str(rate.num),
        ]
        for arm, rate in rates.items()
    ]
    print_rows(rows, screen.out())
    if any(one.saved.finish_reason is None for one in results):
        screen.note("the file does not say which answers were cut: all count as whole")
