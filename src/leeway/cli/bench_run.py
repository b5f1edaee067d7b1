"""What `leeway bench run` does behind its flags: load, measure, keep what was measured, show it."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from leeway.bench.any_spec import parse_any
from leeway.bench.arm_spec import ArmSpec
from leeway.bench.categories import by_category
from leeway.bench.identity import identity_of
from leeway.bench.interleaved import Plan, Progress, measure, resume
from leeway.bench.load_arms import LoadedArms, load_arms
from leeway.bench.named_workloads import named_sources
from leeway.bench.ready_arm import ReadyArm
from leeway.bench.runs import whole_blocks
from leeway.bench.summary import DEFINITIONS, ArmSummary, summarise, warnings_of
from leeway.bench.url_arm import UrlArm
from leeway.bench.window import Window
from leeway.bench.workload import Source, conversations, encode, first_of_each, read_sources
from leeway.cli.bench_options import Asked
from leeway.cli.bench_servers import joined, own_arms
from leeway.cli.bench_table import print_tables
from leeway.cli.call import Call, Screen, to_json
from leeway.cli.loading import names_of, naming_origins, progress
from leeway.core.config import Config
from leeway.core.files import only_writer
from leeway.core.types import SamplingParams
from leeway.sampling.params import check_sampling

OK, INTERRUPTED = 0, 130
SUMMARY = "summary.json"


def run_arms(call: Call, texts: Sequence[str], asked: Asked) -> int:
    """Measure arms as typed, and return the exit code.

    Raises:
        LeewayError: something asked for is refused, or a model cannot be had.
    """
    config, screen = call.resolve()
    asked.check()
    specs = parse_any(texts, config.engine)
    sources = _sources(asked)
    sampling = replace(config.sampling, seed=None, ignore_eos=asked.ignore_eos)
    loaded = load(config, screen, own_arms(specs), sampling)
    parts = loaded.arms[0].engine.parts
    encoded = encode(sources, parts.tokenizer, parts.chat_template, asked.prompt_len)
    plan = Plan(encoded, sampling, asked.seeds, asked.rounds)
    told = {} if asked.prompt_len else conversations(sources)
    with joined(specs, loaded, plan, config.engine, screen, told=told) as arms:
        return measure_all(loaded, plan, asked.out, screen, call.command, arms=arms)


def _sources(asked: Asked) -> Sequence[Source]:
    """Return what to ask, before anything is loaded.

    Raises:
        ConfigError: there is no such workload, or its file or package cannot be read.
    """
    if asked.prompts is not None:
        sources: Sequence[Source] = read_sources(asked.prompts)
    else:
        sources = named_sources(asked.workload or "questions", asked.prompt_len)
    if asked.per_category is not None:
        sources = first_of_each(sources, asked.per_category)
    return sources[: asked.limit]


def load(
    config: Config, screen: Screen, specs: Sequence[ArmSpec], sampling: SamplingParams
) -> LoadedArms:
    """Return arms ready to run.

    Raises:
        LeewayError: a setting is refused, or a model, head or drafter cannot be had.
    """
    with naming_origins(config):
        check_sampling(sampling, sys.maxsize)
    with progress(screen, names_of(config)) as shown:
        return load_arms(config.engine, specs, shown)


def measure_all(
    loaded: LoadedArms,
    plan: Plan,
    out: Path | None,
    screen: Screen,
    command: str | None = None,
    *,
    arms: Sequence[ReadyArm | UrlArm] | None = None,
) -> int:
    """Measure what is not measured yet, show all of it, and return the exit code.

    `arms` are those that were loaded, unless servers stand among them.

    Raises:
        ConfigError: the folder holds windows of another run, or cannot be written.
        LeewayError: a request is refused or fails.
    """
    arms = loaded.arms if arms is None else arms
    names = [arm.spec.name for arm in arms]
    identity = identity_of(arms, plan, loaded.model_sha256, loaded.drafters)
    said = _Said(screen, time.monotonic())
    windows: list[Window] = []
    is_interrupted = False
    with only_writer(out):
        if out is not None:
            windows = resume(out, identity, names)
        asked = set(plan.blocks())
        windows = [window for window in windows if window.block in asked]
        try:
            measured = measure(
                arms,
                plan,
                identity,
                folder=out,
                done=windows,
                on_block=said.block,
                command=command,
            )
            windows.extend(measured)
        except KeyboardInterrupt:
            is_interrupted = True
    kept = whole_blocks(windows, names)
    if is_interrupted:
        screen.note(
            f"interrupted: {len(kept) // len(names)} of {len(plan.blocks())} blocks are whole and "
            "count" + ("" if out is None else "; the same command goes on from there")
        )
    show(kept, names, screen, out, is_interrupted=is_interrupted)
    return INTERRUPTED if is_interrupted else OK


def show(
    windows: Sequence[Window],
    names: Sequence[str],
    screen: Screen,
    out: Path | None,
    *,
    is_interrupted: bool = False,
) -> None:
    """Print the summary of these windows, and keep it beside them."""
    if not windows:
        screen.note("nothing was measured")
        return
    summaries = summarise(windows, names)
    warnings = warnings_of(windows, summaries)
    report = as_json(windows, summaries, warnings) | {"is_interrupted": is_interrupted}
    if out is not None:
        with suppress(OSError):
            (out / SUMMARY).write_text(to_json(report) + "\n", encoding="utf-8")
    if screen.is_json:
        screen.print_json(report)
    else:
        print_tables(windows, summaries, warnings, screen)


def as_json(
    windows: Sequence[Window], summaries: Sequence[ArmSummary], warnings: Sequence[str]
) -> dict[str, Any]:
    """Return a run's summary as JSON holds it."""
    return {
        "definitions": DEFINITIONS,
        "identity": windows[0].identity,
        "sessions": sorted({window.session for window in windows}),
        "warnings": list(warnings),
        "arms": [asdict(summary) for summary in summaries],
        "categories": {
            name: [asdict(one) for one in some]
            for name, some in by_category(windows, summaries).items()
        },
    }


class _Said:
    """How far the run is, on stderr: on a terminal in one line, else now and then a line."""

    def __init__(self, screen: Screen, began: float) -> None:
        self._screen = screen
        self._began = began
        self._next_part = 0.0

    def block(self, at: Progress) -> None:
        num_here = at.num_blocks - at.num_done_before
        num_measured = at.num_measured
        is_due = num_measured / num_here >= self._next_part
        if self._screen.is_quiet or not (is_due or self._screen.is_live):
            return
        self._next_part = num_measured / num_here + 0.1
        left = ""
        if num_measured:
            seconds = (time.monotonic() - self._began) / num_measured * (num_here - num_measured)
            left = f", about {_duration(seconds)} left"
        self._screen.note(f"block {at.num_done_before + num_measured + 1} of {at.num_blocks}{left}")


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min"
