"""The hooks of vLLM's Model Runner V2, in each process that computes.

The runner hands its logits to `RejectionSampler.__call__`, which verifies them chunk by chunk in
`_verify`; that method is replaced. Which requests a slot belongs to is known where they are added.
"""

from __future__ import annotations

from vllm.v1.worker.gpu.sample.sampler import Sampler
from vllm.v1.worker.gpu.spec_decode.rejection_sampler import RejectionSampler

from leeway.vllm import hooks
from leeway.vllm.decider import Decider
from leeway.vllm.replaced_v2 import ReplacedV2
from leeway.vllm.runner import SettingsOf, hook_build

_VERIFY = (
    "self",
    "logits",
    "draft_logits",
    "draft_sampled",
    "pos",
    "cu_num_logits",
    "idx_mapping",
    "idx_mapping_np",
    "expanded_idx_mapping",
    "expanded_local_pos",
    "seq_lens_upper_bound_np",
    "verify_draft_sampled",
)


def hook_runner(settings_of: SettingsOf) -> None:
    """Have the laws put in place when Model Runner V2 is built in this process."""
    hook_build(RejectionSampler, settings_of, _restore, _engage)


def _places() -> list[hooks.Place]:
    from vllm.v1.worker.gpu.model_runner import GPUModelRunner  # noqa: PLC0415

    return [
        (RejectionSampler, "_verify", _VERIFY),
        (RejectionSampler, "__call__", ("self", "logits", "input_batch")),
        (Sampler, "add_request", ("self", "req_idx", "sampling_params")),
        (GPUModelRunner, "finish_requests", ("self", "scheduler_output")),
    ]


def _restore() -> None:
    hooks.restore(_places())


def _engage(decider: Decider) -> None:
    replaced = ReplacedV2(decider)
    hooks.engage(
        _places(),
        [replaced.verify, replaced.call, replaced.add_request, replaced.finish_requests],
    )
