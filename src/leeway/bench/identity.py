"""What windows must have in common to be compared: code, model, drafters, machine, workload, arms.

In: loaded arms and a plan. Out: one flat-ish table of facts that JSON holds unchanged. A digest of
the source stands beside the version, because a version says little between releases.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import leeway
from leeway.bench.interleaved import Plan, sampling_facts
from leeway.bench.machine import read_machine
from leeway.bench.ready_arm import ReadyArm
from leeway.bench.url_arm import UrlArm
from leeway.bench.workload import digest_of
from leeway.drafters.mtp_ngram import MTPNGramDrafter

_MEASURED_ROOMS = (
    "acceptance",
    "backends",
    "bench",
    "core",
    "drafters",
    "engine",
    "grammar",
    "kvcache",
    "models",
    "sampling",
    "scheduler",
    "text",
)
_CHANGING = ("row_shape", "kv_cache_bytes", "capacity_tokens")


def identity_of(
    arms: Sequence[ReadyArm | UrlArm],
    plan: Plan,
    model_sha256: str,
    drafters: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the identity of a run.

    Args:
        arms: at least one of this process; those all over one backend.
        plan: seeds and rounds do not belong to the identity, so a run can be extended by them.
        model_sha256: of the target's weights.
        drafters: by name, what identifies each drafter's own model or head.
    """
    own = [arm for arm in arms if isinstance(arm, ReadyArm)]
    parts = own[0].engine.parts
    settings = parts.backend.describe()
    sampling = sampling_facts(plan.sampling)
    del sampling["seed"]
    return {
        "version": metadata.version("leeway-llm"),
        "source_sha256": source_digest(),
        "model": {"name": parts.model_name, "sha256": model_sha256},
        "backend": {key: value for key, value in settings.items() if key not in _CHANGING},
        "drafters": {name: dict(facts) for name, facts in drafters.items()},
        "draft_cost": {  # shortens adaptive drafts and those of a head beside n-grams
            arm.spec.name: arm.engine.draft_length.draft_cost
            for arm in own
            if arm.spec.draft_length == "adaptive" or arm.spec.drafter == MTPNGramDrafter.name
        },
        "arms": {arm.spec.name: arm.spec.text for arm in arms},
        "first_arm": arms[0].spec.name,
        "workload_sha256": digest_of([prompt.token_ids for prompt in plan.prompts]),
        "sampling": sampling,
        "machine": machine_facts(),
    }


def machine_facts() -> dict[str, Any]:
    """Return what of this machine must be equal for measurements to be compared."""
    machine = read_machine()
    return {
        "cpu_model": machine.cpu_model,
        "usable_threads": machine.usable_threads,
        "total_memory_bytes": machine.total_memory_bytes,
        "system": machine.system,
        "versions": machine.versions,
    }


def source_digest(package: Path | None = None, rooms: Sequence[str] = _MEASURED_ROOMS) -> str:
    """Return the SHA-256 of the source of the rooms that a measurement depends on (hex).

    `rooms` are folders or single files of the package.
    """
    root = Path(leeway.__file__).parent if package is None else package
    whole = hashlib.sha256()
    for room in rooms:
        place = root / room
        for path in [place] if place.is_file() else sorted(place.rglob("*.py")):
            whole.update(path.relative_to(root).as_posix().encode())
            whole.update(hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()
