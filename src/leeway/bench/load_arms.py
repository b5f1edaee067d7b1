"""Loading for a run: the target once, each drafter once, an engine an arm.

In: a configuration and arm specs. Out: arms ready to run, and what identifies their models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from leeway.backends.openvino.backend import OpenVINOBackend
from leeway.bench.arm_spec import ArmSpec
from leeway.bench.part_clock import PartClock
from leeway.bench.ready_arm import ReadyArm, ready_arms
from leeway.core.config import DrafterName, EngineConfig, Origin
from leeway.core.config_drafter import TAKERS, WITH_HEAD
from leeway.core.errors import ConfigError
from leeway.core.limits import NO_LIMITS
from leeway.core.types import Acceptance
from leeway.drafters.base import Drafter
from leeway.engine.load import OnProgress, build_drafter, choose_head, load_engine
from leeway.models.open import open_model

_CHANGING = ("kv_cache_bytes", "capacity_tokens")


@dataclass(frozen=True, slots=True)
class LoadedArms:
    """Arms over one target, and what identifies target and drafters."""

    arms: list[ReadyArm]
    model_sha256: str
    drafters: Mapping[str, Mapping[str, Any]]


def load_arms(
    config: EngineConfig, specs: Sequence[ArmSpec], on_progress: OnProgress | None = None
) -> LoadedArms:
    """Load the target and make every arm ready.

    Args:
        config: of the target and of the drafters' files; its own law, limits and drafter are not
            used.
        specs: at least one.
        on_progress: as `load_engine`.

    Raises:
        LeewayError: a model, head or drafter cannot be had, or a law cannot work with it.
    """
    _check_draft_model(config, specs)
    _check_used(config, specs)
    files = open_model(config.model, cache_dir=config.cache_dir, on_progress=on_progress)
    bare = replace(config, drafter="none", draft_model=None, head=None)
    depth = max(spec.num_speculative_tokens for spec in specs)  # the self-check reads such blocks
    bare = replace(bare, acceptance=Acceptance(), limits=NO_LIMITS, num_speculative_tokens=depth)
    # Arms read the same prompts again and again: each must read them itself.
    engine = load_engine(replace(bare, prefix_cache="off"), on_progress)
    facts: dict[str, Mapping[str, Any]] = {}

    def build(name: str) -> Drafter:
        wanted = replace(
            config,
            drafter=cast(DrafterName, name),
            draft_model=config.draft_model if name == "draft_model" else None,
            head=config.head if name in WITH_HEAD else None,
            origins={**config.origins, "drafter": Origin("flag", "--arm")},
        )
        drafter = build_drafter(
            wanted,
            files,
            cast(OpenVINOBackend, engine.parts.backend),
            engine.parts.tokenizer,
            choose_head(wanted, files),
            on_progress,
        )
        facts[name] = _facts(drafter, wanted)
        return drafter

    arms = ready_arms(engine, specs, build, PartClock())
    return LoadedArms(arms, files.sha256(), facts)


def _check_draft_model(config: EngineConfig, specs: Sequence[ArmSpec]) -> None:
    for spec in specs:
        if spec.drafter == "draft_model" and config.draft_model is None:
            raise ConfigError(
                f"arm {spec.name!r} drafts with a draft model; give --draft-model NAME as well",
                param="draft_model",
            )


def _check_used(config: EngineConfig, specs: Sequence[ArmSpec]) -> None:
    """Refuse what was typed and would have no effect: a model for drafts, a prefix cache."""
    if config.prefix_cache == "on" and config.origin("prefix_cache").layer == "flag":
        raise ConfigError(
            "--prefix-cache on: a run reads every prompt in full, so that prefill is cold; drop it",
            param="prefix_cache",
        )
    used = {spec.drafter for spec in specs}
    for name, takers in TAKERS.items():
        value, origin = getattr(config, name), config.origin(name)
        if value is not None and origin.layer == "flag" and not used.intersection(takers):
            raise ConfigError(
                f"{name} {value!r} (from {origin}) is used by no arm; drop it, or add an arm like "
                f"rejection@{takers[0]}:3",
                param=name,
            )


def _facts(drafter: Drafter, config: EngineConfig) -> dict[str, Any]:
    """Return the settings of what the drafter runs forward, and its checksum."""
    found: dict[str, Any] = {}
    for value in vars(drafter).values():
        if callable(getattr(value, "forward", None)) and callable(getattr(value, "describe", None)):
            found |= {key: item for key, item in value.describe().items() if key not in _CHANGING}
    if config.draft_model is not None:
        files = open_model(config.draft_model, cache_dir=config.cache_dir)
        found |= {"name": files.name, "sha256": files.sha256()}
    return found
