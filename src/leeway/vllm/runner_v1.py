"""The hooks of vLLM's Model Runner V1, in each process that computes.

The runner hands its logits to `RejectionSampler.forward`, which prepares the rows as the request
asked for and calls the module's function `rejection_sample`: that one function is replaced. Which
requests the rows belong to is known one call further up, in the runner's `_sample`.

Everything is put in place when the runner builds its rejection sampler, and only if a law is
configured. All ranks judge, with the same rows and coins; the first one keeps the tally.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

import torch
import vllm.v1.sample.rejection_sampler as sampler_module
from vllm.config import VllmConfig, get_current_vllm_config_or_none
from vllm.distributed import get_tensor_model_parallel_rank
from vllm.platforms import current_platform
from vllm.sampling_params import SamplingParams, SamplingType

from leeway.core.errors import ConfigError
from leeway.vllm.cpu_build import expand_batch_to_tokens, unless_empty
from leeway.vllm.publish import Publisher, folder_of
from leeway.vllm.replaced import Replaced, Wish
from leeway.vllm.settings import PluginSettings
from leeway.vllm.tally import Tally
from leeway.vllm.versions import why_other
from vllm import envs

log = logging.getLogger("vllm.leeway")

_HOOK = "_leeway_hook"
_PARAMETERS = (
    "draft_token_ids",
    "num_draft_tokens",
    "max_spec_len",
    "cu_num_draft_tokens",
    "draft_probs",
    "target_logits",
    "bonus_token_ids",
    "sampling_metadata",
)


def hook_runner(settings_of: Callable[[VllmConfig], PluginSettings | None]) -> None:
    """Have the laws put in place when a rejection sampler is built in this process."""
    original = sampler_module.RejectionSampler.__init__

    @functools.wraps(original)
    def hooked(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        original(self, *args, **kwargs)
        config = get_current_vllm_config_or_none()
        settings = None if config is None else settings_of(config)
        if settings is None:
            _restore()
        else:
            _engage(config, settings, _device_of(args, kwargs))

    sampler_module.RejectionSampler.__init__ = hooked


def _engage(config: Any, settings: PluginSettings, device: torch.device) -> None:  # noqa: ANN401
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner  # noqa: PLC0415

    _restore()
    for function, names in (
        (sampler_module.rejection_sample, _PARAMETERS),
        (GPUModelRunner._sample, ("self", "logits", "spec_decode_metadata")),
    ):
        reason = why_other(function, names)
        if reason is not None:
            raise ConfigError(reason)
    tally = Tally(device, settings.meter_every) if get_tensor_model_parallel_rank() == 0 else None
    replaced = Replaced(settings, device, tally, _describe)
    if tally is not None:
        folder, _ = folder_of(config.instance_id)
        Publisher(tally, folder, float(envs.VLLM_LOG_STATS_INTERVAL))
    _replace(sampler_module, "rejection_sample", replaced.rejection_sample)
    _replace(GPUModelRunner, "_sample", replaced.sample)
    if current_platform.is_cpu():
        sampler_module.expand_batch_to_tokens = expand_batch_to_tokens
        sampler_module.apply_sampling_constraints = unless_empty(
            sampler_module.apply_sampling_constraints
        )
    log.info(
        "[leeway] law %s engaged on %s; the self-check found its closed form",
        settings.law.info.name,
        device,
    )


def _describe(params: SamplingParams) -> Wish:
    is_greedy = params.sampling_type == SamplingType.GREEDY
    return Wish(params.extra_args, is_greedy, params.seed)


def _replace(owner: Any, name: str, hook: Callable[..., Any]) -> None:  # noqa: ANN401
    original = getattr(owner, name)

    @functools.wraps(original)
    def hooked(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        return hook(original, *args, **kwargs)

    setattr(hooked, _HOOK, hook)
    setattr(owner, name, hooked)


def _restore() -> None:
    """Take the hooks of an earlier engine of this process away."""
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner  # noqa: PLC0415

    for owner, name in ((sampler_module, "rejection_sample"), (GPUModelRunner, "_sample")):
        found = getattr(owner, name)
        if hasattr(found, _HOOK):
            setattr(owner, name, found.__wrapped__)


def _device_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.device:
    """Return the device among the arguments of `RejectionSampler.__init__`."""
    found = [one for one in (*args, *kwargs.values()) if isinstance(one, torch.device)]
    return found[0] if found else torch.device("cpu")
