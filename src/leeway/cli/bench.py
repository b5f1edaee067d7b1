"""`leeway bench`: arms measured side by side, and the report of what was measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from leeway.cli.bench_compare import compare
from leeway.cli.call import Call
from leeway.cli.options import takes_settings
from leeway.core.errors import ConfigError

app = App(
    name="bench",
    help="Measure speed and loss, arms side by side in one process.",
    help_format="markdown",
    help_flags=["--help", "-h"],
    version_flags=[],
)
DEFAULT_ARMS = ("plain", "rejection", "typical:delta=0.2", "tokenv3:alpha=0.75")
_ARM = Parameter(
    name=["--arm", "-a"],
    metavar="SPEC",
    negative="",
    show_default=False,
    allow_leading_hyphen=True,
    help="A way to decode, may be repeated: [NAME=]LAW[:KEY=VALUE,...]"
    "[@DRAFTER[:DEPTH[:adaptive]]][/ROWSHAPE], or plain (no drafts, row shape fast). The first is "
    f"what the others are compared with. Without any: {', '.join(DEFAULT_ARMS)}.",
)
_PROMPTS = Parameter(
    metavar="FILE",
    show_default=False,
    help='JSONL with one prompt a line: {"prompt": TEXT}, {"messages": [...]}, '
    '{"question": TEXT} or {"turns": [TEXT]}, and an "id" if you like. Without it: a few of '
    "Leeway's own.",
)
_LIMIT = Parameter(metavar="N", show_default=False, help="Take the first N prompts only.")
_PROMPT_LEN = Parameter(
    metavar="N",
    show_default=False,
    help="Cut every prompt to exactly N tokens, or fill it up with the text of the following ones.",
)
_SEEDS = Parameter(metavar="N", help="Every prompt runs with seeds 1 to N.")
_ROUNDS = Parameter(
    metavar="N", help="Everything is measured N times over; rounds repeat the same tokens."
)
_IGNORE_EOS = Parameter(
    negative="", show_default=False, help="Go on to max tokens behind an end-of-text token."
)
_OUT = Parameter(
    metavar="DIR",
    show_default=False,
    help="Folder for one file a request, from which an interrupted run goes on.",
)
_REPORT_OUT = Parameter(
    metavar="DIR", show_default=False, help="Where the page goes; DIR/report without it."
)
_SAMPLING = (
    "max_tokens",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "stop",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
)


@app.command
@takes_settings("drafting", "model", only=_SAMPLING)
def run(
    call: Call,
    *,
    arm: Annotated[list[str] | None, _ARM] = None,
    prompts: Annotated[Path | None, _PROMPTS] = None,
    limit: Annotated[int | None, _LIMIT] = None,
    prompt_len: Annotated[int | None, _PROMPT_LEN] = None,
    seeds: Annotated[int, _SEEDS] = 3,
    rounds: Annotated[int, _ROUNDS] = 1,
    ignore_eos: Annotated[bool, _IGNORE_EOS] = False,
    out: Annotated[Path | None, _OUT] = None,
) -> int:
    """Run every prompt and seed under each arm, interleaved, and compare arms with intervals.

    The target is loaded once for all arms. Each arm first runs one uncounted request; then every
    prompt and seed is run by all arms, one behind the other. Ctrl-C prints what was measured so
    far; the same command with the same --out goes on from there.
    """
    config, screen = call.resolve()
    for name, value in (("limit", limit), ("prompt-len", prompt_len)):
        _check_positive(name, 1 if value is None else value)
    _check_positive("seeds", seeds)
    _check_positive("rounds", rounds)
    if out is not None and out.exists() and not out.is_dir():
        raise ConfigError(f"--out {str(out)!r} is a file; name a folder")
    from leeway.bench.arm_spec import parse_arms
    from leeway.bench.default_workload import SOURCES
    from leeway.bench.interleaved import Plan
    from leeway.bench.workload import encode, read_sources
    from leeway.cli.bench_run import load, measure_all

    specs = parse_arms(arm or DEFAULT_ARMS, config.engine)
    sources = (SOURCES if prompts is None else read_sources(prompts))[:limit]
    sampling = replace(config.sampling, seed=None, ignore_eos=ignore_eos)
    loaded = load(config, screen, specs, sampling)
    parts = loaded.arms[0].engine.parts
    encoded = encode(sources, parts.tokenizer, parts.chat_template, prompt_len)
    plan = Plan(encoded, sampling, seeds, rounds)
    return measure_all(loaded, plan, out, screen, call.command)


@app.command
@takes_settings()
def report(
    call: Call,
    folder: Annotated[Path, Parameter(name="DIR", help="A folder that --out filled.")],
    /,
    *,
    out: Annotated[Path | None, _REPORT_OUT] = None,
) -> None:
    """Write a page with tables and charts from the files of a run."""
    _, screen = call.resolve()
    from leeway.cli.bench_run import write_report

    write_report(folder, out or folder / "report", screen)


app.command(compare)


def _check_positive(name: str, value: int) -> None:
    if value < 1:
        raise ConfigError(f"--{name} {value} is out of range; give 1 or more")
