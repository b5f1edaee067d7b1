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
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import vllm.v1.sample.rejection_sampler as sampler_module
from vllm.config import VllmConfig, get_current_vllm_config_or_none
from vllm.distributed import get_tensor_model_parallel_rank
from vllm.platforms import current_platform
from vllm.sampling_params import SamplingParams, SamplingType

from leeway.acceptance.base import Law
from leeway.core.errors import ConfigError
from leeway.vllm.batch import Asked, Requests
from leeway.vllm.cpu_build import expand_batch_to_tokens
from leeway.vllm.judge import Step, judge_step
from leeway.vllm.publish import Publisher, folder_of
from leeway.vllm.request_law import read_request
from leeway.vllm.self_check import check_law
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


@dataclass(frozen=True, slots=True)
class _Call:
    """The step that the runner is sampling."""

    runner: Any
    logits: torch.Tensor
    metadata: Any


class Judge:
    """Replaces `rejection_sample` in one process.

    Args:
        settings: in force in this server.
        device: where logits lie.
        tally: counts; None on all but the first rank.
    """

    def __init__(self, settings: PluginSettings, device: torch.device, tally: Tally | None) -> None:
        self._settings = settings
        self._device = device
        self._tally = tally
        self._requests = Requests(self._read, settings.seed)
        self._checked: set[tuple[str, str, str]] = set()
        self._call: _Call | None = None
        self.check(settings.law)

    def check(self, law: Law) -> None:
        """Check a law of this kind once, before it judges.

        Raises:
            BackendError: it does not emit its closed form here.
        """
        kind = law.info.name, law.verifier, str(law.options.get("off_set"))
        if kind not in self._checked:
            check_law(law, self._device, has_rows=self._settings.drafts.has_rows)
            self._checked.add(kind)

    def sample(self, original: Callable[..., Any], runner: Any, logits: Any, metadata: Any) -> Any:  # noqa: ANN401
        """Note whose rows are sampled, while vLLM's `_sample` runs."""
        if metadata is None:
            return original(runner, logits, metadata)
        self._call = _Call(runner, logits, metadata)
        try:
            return original(runner, logits, metadata)
        finally:
            self._call = None

    def rejection_sample(  # noqa: PLR0917
        self,
        original: Callable[..., Any],
        draft_token_ids: torch.Tensor,
        num_draft_tokens: list[int],
        max_spec_len: int,
        cu_num_draft_tokens: torch.Tensor,
        draft_probs: torch.Tensor | None,
        target_logits: torch.Tensor,
        bonus_token_ids: torch.Tensor,
        sampling_metadata: Any,  # noqa: ANN401
        *args: Any,  # noqa: ANN401
        **kwargs: Any,  # noqa: ANN401
    ) -> torch.Tensor:
        """Judge one step; calls outside a step (warm-up) are vLLM's own."""
        call = self._call
        if call is None:
            tokens: torch.Tensor = original(
                draft_token_ids,
                num_draft_tokens,
                max_spec_len,
                cu_num_draft_tokens,
                draft_probs,
                target_logits,
                bonus_token_ids,
                sampling_metadata,
                *args,
                **kwargs,
            )
            return tokens
        states = call.runner.requests
        ids = call.runner.input_batch.req_ids
        plan = self._requests.plan(ids, [states[name].sampling_params for name in ids], states)
        raw = call.logits[call.metadata.target_logits_indices] if plan.reads_raw_rows else None
        step = Step(
            draft_token_ids=draft_token_ids,
            num_draft_tokens=np.asarray(num_draft_tokens, dtype=np.int64),
            max_draft_len=max_spec_len,
            target_logits=target_logits,
            draft_probs=draft_probs,
            raw_logits=raw,
            bonus_token_ids=bonus_token_ids[:, 0],
        )
        coins = plan.throw(max_spec_len, step.num_draft_tokens > 0)
        return judge_step(step, plan, coins, self._tally)

    def _read(self, source: object) -> Asked:
        assert isinstance(source, SamplingParams)
        law = read_request(source.extra_args, self._settings) or self._settings.law
        self.check(law)
        return Asked(law, source.sampling_type == SamplingType.GREEDY, source.seed)


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
    tally = None
    if get_tensor_model_parallel_rank() == 0:
        tally = Tally(device, settings.meter_every)
        folder, _ = folder_of(config.instance_id)
        Publisher(tally, folder, float(envs.VLLM_LOG_STATS_INTERVAL))
    judge = Judge(settings, device, tally)
    _replace(sampler_module, "rejection_sample", judge.rejection_sample)
    _replace(GPUModelRunner, "_sample", judge.sample)
    if current_platform.is_cpu():
        sampler_module.expand_batch_to_tokens = expand_batch_to_tokens
    log.info(
        "[leeway] law %s engaged on %s; the self-check found its closed form",
        settings.law.info.name,
        device,
    )


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
