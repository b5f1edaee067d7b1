"""`leeway heads train`: make a draft head for a model that has none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from leeway.cli.call import Call, Screen
from leeway.cli.loading import counting_bars, progress
from leeway.cli.options import takes_settings
from leeway.core.config import Config
from leeway.core.errors import ConfigError

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from leeway.heads.evaluate import Report

_MAX_DEPTH = 5
_MAX_SEED = 2**32 - 1  # an answer's seed is this one and its prompt's place behind it


def _flag(name: str, metavar: str, meaning: str) -> Parameter:
    return Parameter(name=name, metavar=metavar, help=meaning)


_MODEL = Parameter(
    help="A name that `leeway models` lists, a GGUF file or a safetensors folder.",
    show_default=False,
)
_PROMPTS = Parameter(
    name="--prompts",
    metavar="PATH",
    negative="",
    show_default=False,
    help="JSON-lines file with prompts (field prompt, question, text or instruction); may be "
    "repeated. What evaluation sets hold is dropped.",
)
_OWN_TURNS = _flag("--own-turns", "N", "User turns that the model writes itself.")
_STDLIB = _flag("--stdlib", "N", "Most prompts about Python's standard library.")
_ANSWERS = _flag("--answer-positions", "N", "Positions of the model's own answers to collect.")
_POSITIONS = _flag("--positions", "N", "Positions to train on, repetitions counted.")
_DEPTH = _flag("--depth", "N", "Depths to train.")
_VOCAB = _flag("--draft-vocab", "N", "Tokens that can be drafted: the most frequent ones.")
_SEED = _flag("--seed", "N", "Of everything random.")
_WORK = _flag("--work", "PATH", "Work folder; an interrupted run goes on there.")
_OUT = _flag("--out", "PATH", "The head file.")


@takes_settings(only=("cache_dir",))
def train(
    call: Call,
    model: Annotated[str, _MODEL],
    /,
    *,
    prompts: Annotated[tuple[Path, ...], _PROMPTS] = (),
    own_turns: Annotated[int, _OWN_TURNS] = 2000,
    stdlib: Annotated[int, _STDLIB] = 1000,
    answer_positions: Annotated[int, _ANSWERS] = 800_000,
    positions: Annotated[int, _POSITIONS] = 5_000_000,
    depth: Annotated[int, _DEPTH] = 3,
    draft_vocab: Annotated[int, _VOCAB] = 8192,
    seed: Annotated[int, _SEED] = 0,
    work: Annotated[Path | None, _WORK] = None,
    out: Annotated[Path | None, _OUT] = None,
) -> None:
    """Make a draft head for a model from nothing but the model itself.

    The model answers prompts, its hidden states are kept, and a head is trained to foretell them.
    Needs the extra `train` (`pip install 'leeway-llm[train]'`). An interrupted run goes on where it
    was; larger numbers in a later run add answers or training. Takes hours.
    """
    config, screen = call.resolve()
    _check_range(0, **{"own-turns": own_turns, "stdlib": stdlib})
    _check_range(1, **{"answer-positions": answer_positions, "positions": positions})
    _check_range(1, **{"draft-vocab": draft_vocab})
    _check_range(1, _MAX_DEPTH, depth=depth)
    _check_range(0, _MAX_SEED, seed=seed)
    _check_torch()
    from leeway.heads.make import Plan, make_head
    from leeway.heads.train import Recipe
    from leeway.models.heads import made_heads

    heads, stem = made_heads(config.engine.cache_dir), _head_name(model)
    plan = Plan(
        model=model,
        work=work or heads / "work" / stem,
        out=out or heads / f"{stem}.safetensors",
        prompt_files=prompts,
        num_stdlib=stdlib,
        num_own_turns=own_turns,
        num_answer_positions=answer_positions,
        num_draft_tokens=draft_vocab,
        recipe=Recipe(depth=depth, num_positions=positions),
        seed=seed,
        cache_dir=config.engine.cache_dir,
    )
    with progress(screen) as fetching, _Stages(screen) as stages:
        report = make_head(plan, stages, fetching)
    _show(config, screen, plan.out, report)


def _head_name(model: str) -> str:
    """Return what a model's head is called: its own name, without what tells a file's kind."""
    return Path(model).expanduser().absolute().name.lower().removesuffix(".gguf")


def _check_range(least: int, most: int | None = None, **numbers: int) -> None:
    """Refuse flags out of range; `numbers` by flag, without its two dashes.

    Raises:
        ConfigError: one is out of range.
    """
    allowed = f"{least} or more" if most is None else f"{least} to {most}"
    for name, value in numbers.items():
        if value < least or (most is not None and value > most):
            raise ConfigError(f"--{name} is {value}; allowed: {allowed}")


class _Stages:
    """Shows how far each stage is: a bar on a terminal, else a line at its begin and each tenth."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._bars: Bars | None = None
        self._tasks: dict[str, TaskID | None] = {}
        self._tenths: dict[str, int] = {}

    def __enter__(self) -> _Stages:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars is not None:
            self._bars.stop()

    def __call__(self, stage: str, done: int, total: int) -> None:
        if stage not in self._tasks:
            self._tasks[stage] = self._begin(stage, total)
        task = self._tasks[stage]
        if self._bars is not None and task is not None:
            self._bars.update(task, completed=min(done, total))
        tenth = min(10, 10 * done // max(total, 1))
        if self._bars is None and tenth > self._tenths.get(stage, 0):
            self._tenths[stage] = tenth
            self._screen.note(f"{stage}: {10 * tenth} %")

    def _begin(self, stage: str, total: int) -> TaskID | None:
        if not self._screen.is_live:
            self._screen.note(f"{stage}: {total:,} to do")
            return None
        if self._bars is None:
            self._bars = counting_bars(self._screen, is_transient=False)
            self._bars.start()
        return self._bars.add_task(stage, total=total)


def _check_torch() -> None:
    """Refuse early, and say what to install.

    Raises:
        ConfigError: PyTorch is missing.
    """
    try:
        import torch  # noqa: F401
    except ImportError:
        raise ConfigError(
            "training needs PyTorch, which is not installed; run: pip install 'leeway-llm[train]'"
        ) from None


def _show(config: Config, screen: Screen, path: Path, report: Report) -> None:
    values: dict[str, Any] = {
        "head": str(path),
        "held_out_positions": report.num_positions,
        "acceptance_by_depth": list(report.sampled),
        "acceptance_by_depth_untruncated": list(report.full),
        "greedy_agreement_by_depth": list(report.greedy),
        "draft_vocabulary_coverage": report.coverage,
        "tokens_per_step": report.tokens_per_step,
        "draft_acceptance_rate": report.draft_acceptance_rate,
    }
    if screen.is_json:
        screen.print_json(values)
        return
    out = screen.out()
    for name, value in values.items():
        out.print(f"{name}: {value}")
    if not screen.is_quiet:
        out.print(
            "\nacceptance: 1 - total variation between the target's row and the draft row, held-out"
            " answers, temperature 1, top-p 0.95, top-k 20"
        )
        out.print(f"use it: leeway serve --head {path}")
