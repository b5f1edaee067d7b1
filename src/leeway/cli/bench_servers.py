"""Servers among the arms of `leeway bench run`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from leeway.bench.arm_spec import ArmSpec
from leeway.bench.load_arms import LoadedArms
from leeway.bench.ready_arm import ReadyArm
from leeway.bench.url_arm import UrlArm, ready_url_arm
from leeway.bench.url_spec import UrlSpec
from leeway.bench.workload import Message
from leeway.core.errors import ConfigError


def own_arms(specs: Sequence[ArmSpec | UrlSpec]) -> list[ArmSpec]:
    """Return the arms that this process decodes.

    Raises:
        ConfigError: there is none.
    """
    own = [spec for spec in specs if isinstance(spec, ArmSpec)]
    if not own:
        raise ConfigError(
            "every arm is a server, and a run measures them beside this process; add an arm such "
            "as --arm plain, or measure a server alone with `leeway bench load --url URL`",
            param="arm",
        )
    return own


def join(
    specs: Sequence[ArmSpec | UrlSpec],
    loaded: LoadedArms,
    told: Mapping[str, Sequence[Message]],
) -> list[ReadyArm | UrlArm]:
    """Return all arms in the order of their specs.

    Args:
        specs: of all.
        loaded: those of this process.
        told: conversations by prompt id, for servers that take messages.

    Raises:
        ConfigError: a server does not answer, or has several models.
    """
    own = {arm.spec.name: arm for arm in loaded.arms}
    tokenizer = loaded.arms[0].engine.parts.tokenizer
    return [
        own[spec.name] if isinstance(spec, ArmSpec) else ready_url_arm(spec, tokenizer, told)
        for spec in specs
    ]
