"""The hooks of vLLM's Model Runner V1, in each process that computes.

The runner hands its logits to `RejectionSampler.forward`, which prepares the rows as the request
asked for and calls the module's function `rejection_sample`: that one function is replaced. Which
requests the rows belong to is known one call further up, in the runner's `_sample`.
"""

from __future__ import annotations

import vllm.v1.sample.rejection_sampler as sampler_module
from vllm.platforms import current_platform

from leeway.vllm import hooks
from leeway.vllm.cpu_build import expand_batch_to_tokens, unless_empty
from leeway.vllm.decider import Decider
from leeway.vllm.replaced_v1 import ReplacedV1
from leeway.vllm.runner import SettingsOf, hook_build

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


def hook_runner(settings_of: SettingsOf) -> None:
    """Have the laws put in place when Model Runner V1 is built in this process."""
    hook_build(sampler_module.RejectionSampler, settings_of, _restore, _engage)


def _places() -> list[hooks.Place]:
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner  # noqa: PLC0415

    return [
        (sampler_module, "rejection_sample", _PARAMETERS),
        (GPUModelRunner, "_sample", ("self", "logits", "spec_decode_metadata")),
    ]


def _restore() -> None:
    hooks.restore(_places())


def _engage(decider: Decider) -> None:
    replaced = ReplacedV1(decider)
    hooks.engage(_places(), [replaced.rejection_sample, replaced.sample])
    if current_platform.is_cpu():
        sampler_module.expand_batch_to_tokens = expand_batch_to_tokens
        sampler_module.apply_sampling_constraints = unless_empty(
            sampler_module.apply_sampling_constraints
        )
