"""The same laws inside vLLM: a plugin that replaces what its rejection sampler decides.

vLLM calls `register` in every process it starts. Importing this package, or leeway itself, imports
neither vLLM nor torch.

    settings      what vLLM was given for us, and whether its drafts fit the law
    request_law   what a request asks for
    batch         which law, key and step each request of a batch has
    judge         one verify step: laws by group, tokens out
    tally         counts on the device, read by `publish` for /metrics and the log
    self_check    does the replaced law emit its closed form on this machine
    versions      which vLLM this is written for
    replaced      what stands in for vLLM's function
    plugin        where vLLM calls us: start, admission
    runner_v1     the hooks of Model Runner V1
    cpu_build     one function that vLLM's CPU build computes wrongly
"""

from __future__ import annotations


def register() -> None:
    """Put the hooks in place (entry point of the group `vllm.general_plugins`)."""
    from leeway.vllm.plugin import install  # noqa: PLC0415

    install()
