"""Scoring saved completions again: Leeway's own, and samples in evalplus's form.

In: a file of lines. Out: scores. A line of evalplus's form has a `task_id` and a `solution` (a
whole program) or a `completion` (what goes on from the prompt); such lines do not say whether an
answer was cut.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from leeway.core.errors import ConfigError
from leeway.quality.rates import design_effect, wilson_interval
from leeway.quality.results import COMPLETIONS, LENGTH
from leeway.quality.sandbox import Sandbox
from leeway.quality.suites.base import LoadedSuite, Score, Suite
from leeway.quality.summary import Rate

FORMS = '{"task_id": ..., "solution": PROGRAM} or {"task_id": ..., "completion": TEXT}'


@dataclass(frozen=True, slots=True)
class Saved:
    """One completion; `finish_reason` None where the file does not say."""

    arm: str
    task_id: str
    sample: int
    text: str
    finish_reason: str | None


@dataclass(frozen=True, slots=True)
class Rescored:
    """A completion with its new score."""

    saved: Saved
    score: Score

    @property
    def is_strictly_correct(self) -> bool:
        """Whether it is right and, as far as is known, whole."""
        return self.score.is_correct and self.saved.finish_reason != LENGTH


def read_saved(path: Path) -> list[Saved]:
    """Return the completions of a file, or of a run's folder.

    Samples of a task are numbered as they come where the file does not number them.

    Raises:
        ConfigError: the file cannot be read, or a line is in neither form.
    """
    file = path / COMPLETIONS if path.is_dir() else path
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as reason:
        hint = " (`quality run` writes it with --save-completions)" if path.is_dir() else ""
        raise ConfigError(f"{str(file)!r} cannot be read{hint}: {reason}") from None
    seen: Counter[tuple[str, str]] = Counter()
    found = [
        _read(file, number, line, seen) for number, line in enumerate(lines, 1) if line.strip()
    ]
    if not found:
        raise ConfigError(f"{str(file)!r} holds no completion; lines are {FORMS}")
    last = {(one.arm, one.task_id, one.sample): one for one in found}
    return list(last.values())


def rescore(
    saved: Sequence[Saved],
    suite: Suite,
    data: LoadedSuite,
    sandbox: Sandbox | None,
    *,
    num_scorers: int = 1,
    on_scored: Callable[[int], None] = lambda _: None,
) -> list[Rescored]:
    """Return every completion's score, in order.

    Raises:
        ConfigError: a completion is of a task that the suite has not.
        SandboxError: the sandbox itself failed.
    """
    tasks = {task.task_id: task for task in data.tasks}
    unknown = next((one.task_id for one in saved if one.task_id not in tasks), None)
    if unknown is not None:
        raise ConfigError(
            f"task {unknown!r} is not in {suite.name}, whose first one is "
            f"{data.tasks[0].task_id!r}; name the suite that the completions are of with --suite"
        )

    def score(one: Saved) -> Score:
        return suite.score(tasks[one.task_id], one.text, sandbox)

    found = []
    with ThreadPoolExecutor(num_scorers) as pool:
        for number, (one, result) in enumerate(zip(saved, pool.map(score, saved), strict=True), 1):
            found.append(Rescored(one, result))
            on_scored(number)
    return found


def strict_rates(results: Sequence[Rescored]) -> dict[str, Rate]:
    """Return the strict rate by arm, in the order in which arms appear."""
    groups: dict[str, dict[str, list[float]]] = {}
    for one in results:
        of_arm = groups.setdefault(one.saved.arm, {})
        of_arm.setdefault(one.saved.task_id, []).append(float(one.is_strictly_correct))
    return {arm: _rate(list(tasks.values())) for arm, tasks in groups.items()}


def _rate(groups: Sequence[Sequence[float]]) -> Rate:
    values = [value for group in groups for value in group]
    rate, effect = sum(values) / len(values), design_effect(groups)
    low, high = wilson_interval(rate, len(values) / effect)
    return Rate(rate, low, high, len(values), effect)


def _read(path: Path, number: int, line: str, seen: Counter[tuple[str, str]]) -> Saved:
    try:
        value = json.loads(line)
    except json.JSONDecodeError:
        value = None
    if isinstance(value, Mapping):
        task_id, arm = value.get("task_id"), str(value.get("arm", path.stem))
        is_own = "schema" in value
        text = value.get("completion") if is_own else value.get("solution", value.get("completion"))
        if isinstance(task_id, str | int) and isinstance(text, str):
            name = str(task_id)
            seen[arm, name] += 1
            sample = value.get("sample", seen[arm, name])
            reason = value.get("finish_reason")
            return Saved(arm, name, int(sample), text, None if reason is None else str(reason))
    raise ConfigError(f"{path}, line {number}: not a completion; a line is {FORMS}")
