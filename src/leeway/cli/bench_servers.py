"""Servers and rivals among the arms of `leeway bench run`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from leeway.bench.any_spec import AnySpec
from leeway.bench.arm_spec import ArmSpec
from leeway.bench.interleaved import Plan
from leeway.bench.load_arms import LoadedArms
from leeway.bench.machine import read_machine
from leeway.bench.ready_arm import ReadyArm
from leeway.bench.rivals import RivalSpec, running_rival
from leeway.bench.url_arm import UrlArm, ready_url_arm
from leeway.bench.workload import Message
from leeway.cli.call import Screen
from leeway.core.config import EngineConfig
from leeway.core.errors import ConfigError
from leeway.models.open import open_model

_CONTEXT_STEP = 256


def own_arms(specs: Sequence[AnySpec]) -> list[ArmSpec]:
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


@contextmanager
def joined(
    specs: Sequence[AnySpec],
    loaded: LoadedArms,
    plan: Plan,
    config: EngineConfig,
    screen: Screen,
    *,
    told: Mapping[str, Sequence[Message]],
) -> Iterator[list[ReadyArm | UrlArm]]:
    """Give all arms in the order of their specs; rivals run until the end of the `with`.

    Args:
        specs: of all.
        loaded: those of this process.
        plan: says how long a context rivals need.
        config: names the model's file, and threads.
        screen: told of what is started.
        told: conversations by prompt id, for servers that take messages.

    Raises:
        ConfigError: a server does not answer or has several models, or a rival cannot run.
    """
    own = {arm.spec.name: arm for arm in loaded.arms}
    tokenizer = loaded.arms[0].engine.parts.tokenizer
    with ExitStack() as stack:
        arms: list[ReadyArm | UrlArm] = []
        for spec in specs:
            if isinstance(spec, ArmSpec):
                arms.append(own[spec.name])
                continue
            if isinstance(spec, RivalSpec):
                screen.note(f"starting {spec.recipe.name} for arm {spec.name}")
                spec = stack.enter_context(  # noqa: PLW2901
                    running_rival(
                        spec,
                        model_path(config),
                        num_threads=config.num_threads or read_machine().usable_threads,
                        context_len=context_len(plan),
                    )
                )
            arms.append(ready_url_arm(spec, tokenizer, told))
        yield arms


def model_path(config: EngineConfig) -> Path:
    """Return the file of the target's weights.

    Raises:
        ConfigError: the model is no single file.
    """
    path = getattr(open_model(config.model, cache_dir=config.cache_dir), "path", None)
    if not isinstance(path, Path) or not path.is_file():
        raise ConfigError(
            f"model {config.model!r} is no single .gguf file, and rivals run on the same file; "
            "name one with --model, or start the rival yourself and give its URL",
            param="model",
        )
    return path


def context_len(plan: Plan) -> int:
    """Return the context that the longest request needs, with room, in steps of 256."""
    most = max(len(prompt.token_ids) for prompt in plan.prompts) + plan.sampling.max_tokens
    return -(-(most + _CONTEXT_STEP // 2) // _CONTEXT_STEP) * _CONTEXT_STEP
