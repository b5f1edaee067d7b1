"""What the results of one folder have in common: code, model, suite, sampler, arms, machine.

In: arms and a plan. Out: a table of facts that JSON holds unchanged. How many tasks and samples
are asked is not among them, so that a run can be extended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

from leeway.bench.identity import identity_of, source_digest
from leeway.bench.interleaved import Plan as BenchPlan
from leeway.bench.interleaved import sampling_facts
from leeway.bench.machine import read_machine
from leeway.bench.ready_arm import ReadyArm
from leeway.bench.url_arm import UrlArm
from leeway.quality.run import Plan
from leeway.quality.suites.base import LoadedSuite

_SCORING = ("quality/suites", "quality/sandbox.py", "quality/asks.py", "quality/arms.py")
_OTHERS = ("workload_sha256",)  # which prompts: the suite's digest says it
OF_EACH_TASK = "of each task"


def identity_of_run(
    arms: Sequence[ReadyArm | UrlArm],
    plan: Plan,
    loaded: LoadedSuite,
    *,
    batch: int,
    model_sha256: str | None = None,
    drafters: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """Return the identity of a run.

    Args:
        arms: at least one.
        plan: its numbers of tasks and samples do not belong to the identity.
        loaded: the suite's data.
        batch: requests at once.
        model_sha256: of the target's weights; None where every arm is a server.
        drafters: by name, what identifies each drafter's own model or head.
    """
    if model_sha256 is None:
        facts = _of_servers(arms)
    else:
        facts = identity_of(arms, BenchPlan((), plan.sampling, 1, 1), model_sha256, drafters or {})
    sampling = sampling_facts(plan.sampling)
    sampling["max_tokens"] = OF_EACH_TASK if plan.max_tokens is None else plan.max_tokens
    return {key: value for key, value in facts.items() if key not in _OTHERS} | {
        "scoring_sha256": source_digest(rooms=_SCORING),
        "sampling": sampling,
        "batch": batch,
        "suite": {
            "name": plan.suite.name,
            "licence": plan.suite.licence,
            "source": plan.suite.source,
            "sha256": loaded.sha256,
            "is_known": loaded.is_known,
            "num_tasks": len(loaded.tasks),
        },
        "isolation": None if plan.sandbox is None else plan.sandbox.isolation,
    }


def _of_servers(arms: Sequence[ReadyArm | UrlArm]) -> dict[str, Any]:
    machine = read_machine()
    return {
        "version": metadata.version("leeway-llm"),
        "source_sha256": source_digest(),
        "model": {"name": _served_model(arms), "sha256": None},
        "arms": {arm.spec.name: arm.spec.text for arm in arms},
        "first_arm": arms[0].spec.name,
        "machine": {
            "cpu_model": machine.cpu_model,
            "usable_threads": machine.usable_threads,
            "system": machine.system,
            "versions": machine.versions,
        },
    }


def _served_model(arms: Sequence[ReadyArm | UrlArm]) -> str:
    names = {arm.spec.model or "" for arm in arms if isinstance(arm, UrlArm)}
    return ", ".join(sorted(names))
