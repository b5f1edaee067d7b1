"""What `leeway quality run` does behind its flags: load, ask, score, keep, show."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace

from leeway.bench.any_spec import AnySpec, parse_any
from leeway.bench.interleaved import Plan as BenchPlan
from leeway.bench.load_arms import LoadedArms
from leeway.bench.machine import read_machine
from leeway.bench.ready_arm import ReadyArm
from leeway.bench.url_arm import UrlArm, ready_url_arm
from leeway.bench.url_spec import UrlSpec
from leeway.cli.bench_run import INTERRUPTED, OK, load
from leeway.cli.bench_servers import joined, own_arms
from leeway.cli.call import Call, Screen, to_json
from leeway.cli.loading import counting_bars
from leeway.cli.quality_options import Asked
from leeway.cli.quality_print import print_scored
from leeway.core.config import Config
from leeway.core.errors import ConfigError
from leeway.core.files import only_writer
from leeway.quality.arms import AnsweringArm, EngineArm, ServerArm
from leeway.quality.asks import conversations_of, prompts_of, subset
from leeway.quality.identity import identity_of_run
from leeway.quality.run import Keeper, Plan, Progress, open_folder, run
from leeway.quality.sandbox import open_sandbox
from leeway.quality.scores import Scored, as_json, score_run
from leeway.quality.speeds import speeds_of
from leeway.quality.suites.base import LoadedSuite
from leeway.quality.suites.registry import suite

SCORES = "scores.json"


@dataclass(frozen=True, slots=True)
class _Ready:
    """Arms, and what identifies their models; no loaded arms where every arm is a server."""

    arms: list[ReadyArm | UrlArm]
    plan: Plan
    data: LoadedSuite
    loaded: LoadedArms | None = None


def run_suite(call: Call, texts: Sequence[str], asked: Asked) -> int:
    """Ask and score as typed, and return the exit code.

    Raises:
        LeewayError: something asked for is refused, or a model or a suite's data cannot be had.
    """
    config, screen = call.resolve()
    asked.check()
    chosen = suite(asked.suite)
    if config.sampling.temperature == 0 and asked.samples > 1:
        raise ConfigError(
            f"--samples {asked.samples} at temperature 0 would ask the same thing again; give "
            "--samples 1, or a temperature above 0"
        )
    specs = _by_messages(texts, parse_any(texts, config.engine))
    data = chosen.load(asked.data_dir, config.engine.cache_dir)
    sandbox = None
    if chosen.needs_sandbox:
        sandbox = open_sandbox(allow_unsandboxed=asked.allow_unsandboxed)
    is_default = config.values["max_tokens"].origin.layer == "default"
    plan = Plan(
        suite=chosen,
        tasks=subset(data.tasks, asked.tasks),
        prompts={},
        sampling=replace(config.sampling, seed=config.sampling.seed or 0),
        num_samples=asked.samples,
        max_tokens=None if is_default else config.sampling.max_tokens,
        sandbox=sandbox,
        num_scorers=read_machine().usable_threads,
    )
    with _ready(specs, _Ready([], plan, data), config, screen) as ready, only_writer(asked.out):
        return _run(ready, config, asked, screen, call.command)


def _by_messages(texts: Sequence[str], specs: Sequence[AnySpec]) -> list[AnySpec]:
    """Ask servers by messages unless an arm says otherwise: tasks are conversations."""
    return [
        replace(spec, send="messages")
        if isinstance(spec, UrlSpec) and ",send=" not in text
        else spec
        for text, spec in zip(texts, specs, strict=True)
    ]


@contextmanager
def _ready(
    specs: Sequence[AnySpec], bare: _Ready, config: Config, screen: Screen
) -> Iterator[_Ready]:
    """Give arms that can answer; rivals run until the end of the `with`.

    Raises:
        LeewayError: a model, drafter or server cannot be had.
    """
    plan, told = bare.plan, conversations_of(bare.plan.tasks)
    if all(isinstance(spec, UrlSpec) for spec in specs):
        servers = [ready_url_arm(one, None, told) for one in specs if isinstance(one, UrlSpec)]
        yield replace(bare, arms=list(servers))
        return
    loaded = load(config, screen, own_arms(specs), plan.sampling)
    parts = loaded.arms[0].engine.parts
    plan = replace(plan, prompts=prompts_of(plan.tasks, parts.tokenizer, parts.chat_template))
    most = max(ask.sampling.max_tokens for ask in plan.asks(1))
    prompts = [one.prompt for one in plan.prompts.values()]
    longest = BenchPlan(prompts, replace(plan.sampling, max_tokens=most), 1, 1)
    with joined(specs, loaded, longest, config.engine, screen, told=told) as arms:
        yield replace(bare, arms=arms, plan=plan, loaded=loaded)


def _run(ready: _Ready, config: Config, asked: Asked, screen: Screen, command: str) -> int:
    plan, loaded = ready.plan, ready.loaded
    batch = config.engine.max_num_seqs
    identity = identity_of_run(
        ready.arms,
        plan,
        ready.data,
        batch=batch,
        model_sha256=None if loaded is None else loaded.model_sha256,
        drafters=None if loaded is None else loaded.drafters,
    )
    keeper = Keeper(None)
    if asked.out is not None:
        keeper = open_folder(asked.out, identity, command, has_completions=asked.save_completions)
    arms: list[AnsweringArm] = [
        EngineArm(arm) if isinstance(arm, ReadyArm) else ServerArm(arm, batch) for arm in ready.arms
    ]
    is_interrupted = False
    try:
        with _shown(screen) as show:
            run(arms, plan, keeper, on_progress=show)
    except KeyboardInterrupt:
        is_interrupted = True
        goes_on = "" if asked.out is None else "; the same command goes on from there"
        screen.note(f"interrupted: {len(keeper.results)} answers are kept{goes_on}")
    wanted = plan.keys([arm.name for arm in arms])
    results = [one for one in keeper.results if one.key in wanted]
    _show(score_run(identity, results, margin=asked.margin), asked, screen)
    return INTERRUPTED if is_interrupted else OK


def _show(scored: Scored | None, asked: Asked, screen: Screen) -> None:
    if scored is None:
        screen.note("no task was asked of every arm")
        return
    report = as_json(scored)
    if asked.out is not None:
        with suppress(OSError):
            (asked.out / SCORES).write_text(to_json(report) + "\n", encoding="utf-8")
    if screen.is_json:
        speeds = speeds_of(scored.results, [one.name for one in scored.arms])
        screen.print_json(report | {"speeds": {name: asdict(it) for name, it in speeds.items()}})
    else:
        print_scored(scored, screen)


@contextmanager
def _shown(screen: Screen) -> Iterator[Callable[[Progress], None]]:
    """Give something that shows how far a run is: a bar on a terminal, else a line an arm."""
    if not screen.is_live:
        said: set[tuple[str, int]] = set()

        def say(at: Progress) -> None:
            if (at.arm, at.sample) not in said:
                said.add((at.arm, at.sample))
                screen.note(
                    f"sample {at.sample}, arm {at.arm}: {at.num_done} of {at.num_wanted} answers"
                )

        yield say
        return
    with counting_bars(screen, is_transient=True) as bars:
        task = bars.add_task("answers", total=None)

        def draw(at: Progress) -> None:
            bars.update(
                task,
                description=f"sample {at.sample}, {at.arm}",
                total=at.num_wanted - at.num_done_before,
                completed=at.num_done - at.num_done_before,
            )

        yield draw
