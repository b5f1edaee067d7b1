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
    decider       who decides one step in a process
    replaced_v1   what stands in for the functions of Model Runner V1
    replaced_v2   the same of Model Runner V2
    plugin        where vLLM calls us: start, admission
    hooks         putting functions in place of others
    runner        what both runners need in a process that computes
    runner_v1     the hooks of Model Runner V1
    runner_v2     the hooks of Model Runner V2
    cpu_build     one function that vLLM's CPU build computes wrongly
"""

from __future__ import annotations


def register() -> None:
    """Put the hooks in place (entry point of the group `vllm.general_plugins`)."""
    from leeway.vllm.plugin import install  # noqa: PLC0415

    install()
