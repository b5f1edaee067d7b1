"""Where vLLM calls us: once in each process, at start, and for each request that comes in.

In the process that serves: settings are checked before anything is loaded, a request's law when it
comes in. In the processes that compute: the runner's hooks, put in place when its rejection sampler
is built. Where no law is configured every hook calls vLLM's own function and does nothing else.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

from vllm.config import VllmConfig
from vllm.engine.arg_utils import EngineArgs
from vllm.exceptions import VLLMValidationError
from vllm.sampling_params import SamplingParams
from vllm.triton_utils import HAS_TRITON
from vllm.v1.engine.input_processor import InputProcessor

import vllm
from leeway.core.errors import ConfigError, LeewayError
from leeway.vllm import hooks
from leeway.vllm.publish import serve_counters
from leeway.vllm.request_law import read_request
from leeway.vllm.runner_v1 import hook_runner
from leeway.vllm.settings import (
    SOURCE,
    PluginSettings,
    build_settings,
    describe_drafts,
    read_config,
)
from leeway.vllm.versions import why_not

log = logging.getLogger("vllm.leeway")

_SETTINGS = "_leeway_settings"
_NOT_WITH_V2 = {
    "watermark_config": "watermarks are put into tokens that vLLM draws, and the law draws them",
    "parallel_config.enable_batch_sharded_sampling": "the law has not been tried with it",
    "speculative_config.enable_adaptive_verification": "the law has to know a block's length "
    "before its rows",
}


def install() -> None:
    """Put every hook in place, once in each process."""
    if hooks.is_replaced(EngineArgs, "create_engine_config"):
        return
    reason = why_not(vllm.__version__)
    hooks.replace((EngineArgs, "create_engine_config", ()), functools.partial(_start, reason))
    if reason is None:
        hooks.replace((InputProcessor, "process_inputs", ()), _admit)
        hook_runner(settings_of)
        if HAS_TRITON:
            from leeway.vllm import runner_v2  # noqa: PLC0415 (all of it is written in Triton)

            runner_v2.hook_runner(settings_of)


def settings_of(config: VllmConfig) -> PluginSettings | None:
    """Return the settings in force in this server, or None where no law is configured.

    Raises:
        LeewayError: they are wrong, or cannot work here.
    """
    asked = read_config(config.additional_config)
    if asked is None:
        return None
    drafts = describe_drafts(config.speculative_config)
    return build_settings(*asked, drafts, int(config.model_config.seed or 0))


def _start(
    reason: str | None,
    original: Callable[..., VllmConfig],
    *args: Any,  # noqa: ANN401
    **kwargs: Any,  # noqa: ANN401
) -> VllmConfig:
    """Check what is configured as soon as vLLM knows it."""
    config = original(*args, **kwargs)
    if read_config(config.additional_config) is None:
        return config
    if reason is not None:
        raise ConfigError(reason)
    settings = settings_of(config)
    if config.use_v2_model_runner:
        _check_v2(config)
    assert settings is not None
    serve_counters(config.instance_id)
    log.info(
        "[leeway] law %s %s judges the drafts of %s (%s); requests may choose %s",
        settings.law.info.name,
        dict(settings.law.options),
        settings.drafts.method,
        "with their rows" if settings.drafts.has_rows else "as point masses",
        ", ".join(settings.ceiling.allowed),
    )
    return config


def _check_v2(config: VllmConfig) -> None:
    """Refuse what Model Runner V2 can do and the laws cannot."""
    if not HAS_TRITON:
        raise ConfigError(
            "VLLM_USE_V2_MODEL_RUNNER is set, and Model Runner V2 needs Triton, which vLLM does "
            "not find here; set it to 0"
        )
    for path, why in _NOT_WITH_V2.items():
        value: object = config
        for name in path.split("."):
            value = getattr(value, name, None)
        if value:
            raise ConfigError(f"{path} is set, and {SOURCE} chooses a law: {why}; drop one")


def _admit(
    original: Callable[..., Any],
    processor: InputProcessor,
    *args: Any,  # noqa: ANN401
    **kwargs: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Refuse a request whose law cannot be had, as vLLM refuses other bad parameters."""
    given = [*args, *kwargs.values()]
    params = next((one for one in given if isinstance(one, SamplingParams)), None)
    if params is not None and params.extra_args:
        settings = _settings_once(processor)
        if settings is not None:
            try:
                read_request(params.extra_args, settings)
            except LeewayError as error:
                raise VLLMValidationError(error.message, parameter=error.param) from None
    return original(processor, *args, **kwargs)


def _settings_once(processor: InputProcessor) -> PluginSettings | None:
    if not hasattr(processor, _SETTINGS):
        setattr(processor, _SETTINGS, settings_of(processor.vllm_config))
    found: PluginSettings | None = getattr(processor, _SETTINGS)
    return found
