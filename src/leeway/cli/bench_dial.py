"""`leeway bench dial`: one number of a law swept, speed beside measured loss."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from leeway.cli.bench_options import (
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
from leeway.cli.call import Call
from leeway.cli.options import takes_settings

_LAW = Parameter(
    name="--law",
    metavar="LAW[:KEY=VALUE,...]",
    help="The law or preset, with options that stay as they are.",
)
_KNOB = Parameter(metavar="NAME", help="The option that is swept; a number.")
_VALUES = Parameter(
    metavar="N,N,...", allow_leading_hyphen=True, help="Its values, two or more, commas between."
)


@takes_settings("drafting", "model", only=SAMPLING)
def dial(
    call: Call,
    *,
    law: Annotated[str, _LAW],
    knob: Annotated[str, _KNOB],
    values: Annotated[str, _VALUES],
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
    """Sweep one number of a law: speed, kept drafts and measured loss at each value.

    A run whose arms are plain decoding, the exact law rejection, and the law at each value; all
    with the drafter in force. Interrupting, going on and intervals are those of `bench run`.
    """
    from leeway.bench.knobs import dial_arms
    from leeway.cli.bench_run import run_arms

    asked = Asked(
        prompts, limit, prompt_len, seeds, rounds, ignore_eos, out, workload, per_category
    )
    return run_arms(call, dial_arms(law, knob.replace("-", "_"), values.split(",")), asked)
