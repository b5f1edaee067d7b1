"""Two arms of one run or of two: paired by task, sample and seed.

In: folders. Out: comparisons, and in what the runs differ. Runs that asked different things are
refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leeway.bench.runs import differences
from leeway.core.errors import ConfigError, did_you_mean
from leeway.quality.results import Result, RunInfo, read_info, read_results
from leeway.quality.scores import check_margin, ordered_arms
from leeway.quality.summary import ArmPair, pair_arms


@dataclass(frozen=True, slots=True)
class Compared:
    """Comparisons, and name and both values of everything in which two runs differ."""

    pairs: Sequence[ArmPair]
    differences: Sequence[tuple[str, Any, Any]]


@dataclass(frozen=True, slots=True)
class _Run:
    folder: Path
    info: RunInfo
    results: Sequence[Result]

    @property
    def arms(self) -> list[str]:
        return list(ordered_arms(self.info.identity))

    def of(self, arm: str) -> list[Result]:
        return [one for one in self.results if one.arm == arm]


def compare_folders(
    a: Path, b: Path | None, *, arm_a: str | None, arm_b: str | None, margin: float
) -> Compared:
    """Return an arm of `a` beside arms of `b`, or of `a` itself.

    Args:
        a: a run's folder.
        b: another one's, or None.
        arm_a: the first arm of `a` if None.
        arm_b: every other arm if None; of another folder every arm.
        margin: loss that would matter.

    Raises:
        ConfigError: a folder holds no run, an arm is unknown, the runs asked different things, or
            no task and sample was answered by both arms.
    """
    check_margin(margin)
    first, second = _read(a), _read(a if b is None else b)
    found = list(differences(first.info.identity, second.info.identity))
    _check_alike(first, second)
    one = _choose(first, arm_a) if arm_a is not None else first.arms[0]
    if arm_b is not None:
        others = [_choose(second, arm_b)]
    else:
        others = [name for name in second.arms if b is not None or name != one]
    own = first.of(one)
    paired = [(name, pair_arms(own, second.of(name), margin=margin)) for name in others]
    missing = next((name for name, pair in paired if pair is None), None)
    if missing is not None or not paired:
        raise ConfigError(
            f"arm {one!r} of {str(a)!r} and {missing or 'another arm'!r} of {str(b or a)!r} have "
            "no task and sample in common; let `leeway quality run` go on, or name other arms with "
            "--arm-a and --arm-b"
        )
    return Compared([pair for _, pair in paired if pair is not None], found)


def _read(folder: Path) -> _Run:
    info = read_info(folder) if folder.is_dir() else None
    if info is None:
        raise ConfigError(
            f"{str(folder)!r} holds no quality run; name a folder that `leeway quality run --out` "
            "filled"
        )
    return _Run(folder, info, read_results(folder))


def _check_alike(first: _Run, second: _Run) -> None:
    """Refuse runs whose answers are no pairs: other data, sampler or seeds."""
    for name in ("suite", "sampling"):
        one, other = first.info.identity[name], second.info.identity[name]
        differing = next(differences(one, other), None)
        if differing is not None:
            key, old, new = differing
            raise ConfigError(
                f"{str(first.folder)!r} and {str(second.folder)!r} asked different things: "
                f"{name}.{key} is {old} and {new}; compare runs of one suite and one sampler"
            )


def _choose(run: _Run, name: str) -> str:
    if name not in run.arms:
        raise ConfigError(
            f"{str(run.folder)!r} has no arm {name!r}{did_you_mean(name, run.arms)}; it has "
            f"{', '.join(run.arms)}"
        )
    return name
