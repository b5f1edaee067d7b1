"""What both of vLLM's runners need in each process that computes: a decider, and its receipts.

Everything is put in place when a runner builds its rejection sampler, and only if a law is
configured. All ranks judge, with the same rows and coins; the first one keeps the tally.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

import torch
from vllm.config import VllmConfig, get_current_vllm_config_or_none
from vllm.distributed import get_tensor_model_parallel_rank
from vllm.sampling_params import SamplingParams, SamplingType

from leeway.vllm.decider import Decider, Wish
from leeway.vllm.publish import Publisher, folder_of
from leeway.vllm.settings import PluginSettings
from leeway.vllm.tally import Tally
from vllm import envs

log = logging.getLogger("vllm.leeway")

SettingsOf = Callable[[VllmConfig], PluginSettings | None]


def hook_build(
    sampler: type, settings_of: SettingsOf, restore: Callable[[], None], engage: Callable[..., None]
) -> None:
    """Have the laws put in place when a rejection sampler of this class is built.

    Args:
        sampler: vLLM's class.
        settings_of: reads vLLM's configuration.
        restore: takes the hooks of an earlier engine of this process away; its receipts end then.
        engage: puts hooks in place, given a decider.
    """
    original: Callable[..., None] = sampler.__init__  # type: ignore[misc]
    earlier: list[Publisher] = []

    @functools.wraps(original)
    def hooked(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        original(self, *args, **kwargs)
        restore()
        while earlier:
            earlier.pop().close()
        config = get_current_vllm_config_or_none()
        settings = None if config is None else settings_of(config)
        if settings is not None:
            device = _device_of(args, kwargs)
            is_first = get_tensor_model_parallel_rank() == 0
            tally = Tally(settings.meter_every) if is_first else None
            engage(Decider(settings, device, tally, _describe))
            if tally is not None:
                folder, _ = folder_of(config.instance_id)
                earlier.append(Publisher(tally, folder, float(envs.VLLM_LOG_STATS_INTERVAL)))
            log.info(
                "[leeway] law %s engaged on %s; the self-check found its closed form",
                settings.law.info.name,
                device,
            )

    sampler.__init__ = hooked  # type: ignore[misc]


def _describe(params: SamplingParams) -> Wish:
    is_greedy = params.sampling_type == SamplingType.GREEDY
    return Wish(params.extra_args, is_greedy, params.seed)


def _device_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.device:
    """Return the device among the arguments of `RejectionSampler.__init__`."""
    found = [one for one in (*args, *kwargs.values()) if isinstance(one, torch.device)]
    return found[0] if found else torch.device("cpu")
