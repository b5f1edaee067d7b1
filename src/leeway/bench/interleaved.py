"""A run: arms interleaved, request by request, each window written as soon as it is measured.

A block is one round, seed and prompt: every arm runs the same request, one behind the other. Each
arm begins equally often, and the order is shuffled anew when each has, so that none always follows
the same one. In: ready arms, prompts, seeds. Out: window files. A block that an earlier process did
not finish is measured again as a whole, so arms are only ever compared within one process and
moment.
"""

from __future__ import annotations

import hashlib
import itertools
import random
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from leeway.bench.machine import (
    CpuTime,
    read_available_memory_bytes,
    read_cpu_mhz,
    read_cpu_time,
    read_load,
    read_peak_memory_bytes,
    reset_peak_memory,
)
from leeway.bench.part_clock import PARTS
from leeway.bench.ready_arm import ReadyArm, Run
from leeway.bench.runs import differences, whole_blocks
from leeway.bench.url_arm import UrlArm, url_window
from leeway.bench.window import SCHEMA, Window, read_windows, tally_to_json, write_window
from leeway.bench.workload import Prompt, digest_of
from leeway.core.errors import ConfigError
from leeway.core.types import Request, SamplingParams

WAKE_TOKENS, WAKE_PROMPT_TOKENS = 16, 512
_DIGITS = 7  # a tenth of a microsecond


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure: every prompt with seeds 1 to `num_seeds`, `num_rounds` times over."""

    prompts: Sequence[Prompt]
    sampling: SamplingParams
    num_seeds: int
    num_rounds: int

    def blocks(self) -> list[tuple[int, int, int]]:
        """Return (round, seed, index of the prompt) in the order of measurement."""
        rounds, seeds = range(1, self.num_rounds + 1), range(1, self.num_seeds + 1)
        return list(itertools.product(rounds, seeds, range(len(self.prompts))))


@dataclass(frozen=True, slots=True)
class Progress:
    """Told as each block begins: how many there are, and how many of them are measured.

    `num_done_before` were measured by earlier processes, `num_measured` by this one.
    """

    num_blocks: int
    num_done_before: int
    num_measured: int


def resume(folder: Path, identity: Mapping[str, Any], arms: Sequence[str]) -> list[Window]:
    """Return the windows of whole blocks that a folder already has.

    Args:
        folder: of an earlier run, or empty.
        identity: of this run.
        arms: names; a block is whole when one process measured every one of them.

    Raises:
        ConfigError: the folder's windows are of another code, model, machine, workload or arms.
    """
    windows = read_windows(folder) if folder.is_dir() else []
    for window in windows:
        differing = next(differences(window.identity, identity), None)
        if differing is not None:
            name, old, new = differing
            raise ConfigError(
                f"{str(folder)!r} holds windows of another run: {name} was {old} and is {new}; "
                "measure into another folder, or go back to what it was"
            )
    return whole_blocks(windows, arms)


def measure(
    arms: Sequence[ReadyArm | UrlArm],
    plan: Plan,
    identity: Mapping[str, Any],
    *,
    folder: Path | None,
    done: Sequence[Window] = (),
    on_block: Callable[[Progress], None] = lambda _: None,
    command: str | None = None,
) -> Iterator[Window]:
    """Yield each window as it is measured; blocks that are `done` are left out.

    Arms of this process refuse what does not fit before anything runs. Then every arm runs one
    uncounted request, in this process a short one. With a `folder` each window is written before it
    is yielded. `command` is kept as it is.

    Raises:
        LeewayError: a request is refused or fails.
    """
    session = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{secrets.token_hex(3)}"
    blocks = plan.blocks()
    whole = {window.block for window in done}
    todo = [(index, block) for index, block in enumerate(blocks) if block not in whole]
    if not todo:
        return
    _wake(arms, plan, plan.prompts[todo[0][1][2]])
    for num_measured, (index, block) in enumerate(todo):
        on_block(Progress(len(blocks), len(blocks) - len(todo), num_measured))
        for position, arm_index in enumerate(_order(index, len(arms))):
            arm = arms[arm_index]
            if isinstance(arm, UrlArm):
                window = _ask_server(arm, plan, block)
            else:
                window = _measure_one(arm, plan, block)
            window = replace(
                window,
                identity=dict(identity),
                session=session,
                position=position,
                command=command,
            )
            if folder is not None:
                write_window(folder, arm_index, window)
            yield window


def _wake(arms: Sequence[ReadyArm | UrlArm], plan: Plan, first: Prompt) -> None:
    """Check that the longest prompt fits, then run one request an arm that is not counted."""
    wake = replace(plan.sampling, seed=0, max_tokens=min(WAKE_TOKENS, plan.sampling.max_tokens))
    longest = max(plan.prompts, key=lambda one: len(one.token_ids))
    for arm in arms:
        if isinstance(arm, ReadyArm):
            arm.engine.check(Request("longest", longest.token_ids, plan.sampling))
    for arm in arms:
        if isinstance(arm, UrlArm):
            arm.wake(first, wake)
        else:
            arm.run(first.token_ids[:WAKE_PROMPT_TOKENS], wake)


def _order(block_index: int, num_arms: int) -> list[int]:
    """Return the arms in the order in which a block runs them."""
    cycle, shift = divmod(block_index, num_arms)
    order = random.Random(cycle).sample(range(num_arms), num_arms)
    return order[shift:] + order[:shift]


def _measure_one(arm: ReadyArm, plan: Plan, block: tuple[int, int, int]) -> Window:
    """Run one request; which run it belongs to is the caller's to say."""
    round_index, seed, prompt_index = block
    prompt = plan.prompts[prompt_index]
    sampling = replace(plan.sampling, seed=seed)
    reset_peak_memory()
    cpu_before, began = read_cpu_time(), time.perf_counter()
    run = arm.run(prompt.token_ids, sampling)
    other, stolen = _taken(cpu_before, read_cpu_time(), time.perf_counter() - began)
    kv_bytes, kv_cache_bytes = arm.kv_bytes(len(prompt.token_ids) + len(run.token_ids))
    return Window(
        schema=SCHEMA,
        identity={},
        session="",
        arm=arm.spec.name,
        definition=arm.spec.text,
        void=arm.fault(run.receipt) or _warm_prefill(len(prompt.token_ids), run.prefill_tokens),
        note=arm.note(run.receipt),
        prompt_id=prompt.prompt_id,
        prompt_index=prompt_index,
        seed=seed,
        round=round_index,
        position=0,
        request_digest=digest_of([prompt.token_ids, sampling_facts(sampling)]),
        prompt_digest=prompt.digest,
        output_digest=digest_of(run.token_ids),
        text_digest=hashlib.sha256(run.text.encode()).hexdigest(),
        finish_reason=str(run.finish_reason),
        prompt_tokens=len(prompt.token_ids),
        output_tokens=len(run.token_ids),
        row_shape=arm.row_shape,
        receipt=run.receipt.to_dict(),
        tally=tally_to_json(run.receipt.tally),
        steps=_columns(run),
        ttft_s=run.ttft_s,
        decode_s=sum(sum(parts.values()) for parts in run.steps),
        load=read_load(),
        other_cores=other,
        stolen_cores=stolen,
        peak_memory_bytes=read_peak_memory_bytes(),
        kv_bytes=kv_bytes,
        kv_cache_bytes=kv_cache_bytes,
        cpu_mhz=read_cpu_mhz(),
        category=prompt.category,
        prefill_tokens=run.prefill_tokens,
        available_memory_bytes=read_available_memory_bytes(),
    )


def _ask_server(arm: UrlArm, plan: Plan, block: tuple[int, int, int]) -> Window:
    """Run one request on a server, which is itself among the other processes and not counted."""
    round_index, seed, prompt_index = block
    prompt = plan.prompts[prompt_index]
    sampling = replace(plan.sampling, seed=seed)
    cpu_before, began = read_cpu_time(), time.perf_counter()
    window = url_window(arm, prompt, sampling)
    _, stolen = _taken(cpu_before, read_cpu_time(), time.perf_counter() - began)
    return replace(
        window,
        prompt_index=prompt_index,
        seed=seed,
        round=round_index,
        request_digest=digest_of([prompt.token_ids, sampling_facts(sampling)]),
        load=read_load(),
        stolen_cores=stolen,
        cpu_mhz=read_cpu_mhz(),
        category=prompt.category,
        available_memory_bytes=read_available_memory_bytes(),
    )


def _warm_prefill(num_sent: int, num_read: int) -> str | None:
    """Return why a prompt that was not read in full does not count; None if it was."""
    if num_read == num_sent:
        return None
    return f"the target read {num_read} prompt tokens of {num_sent}; prefill has to be cold"


def sampling_facts(sampling: SamplingParams) -> dict[str, Any]:
    """Return the sampling parameters as JSON holds them."""
    facts = {name: getattr(sampling, name) for name in SamplingParams.__dataclass_fields__}
    biases = {str(token_id): bias for token_id, bias in sampling.logit_bias.items()}
    return (
        facts
        | {"logit_bias": biases, "stop": list(sampling.stop)}
        | {"stop_token_ids": list(sampling.stop_token_ids)}
    )


def _columns(run: Run) -> dict[str, list[float]]:
    """Return the verify steps behind the first token, column by column."""
    columns = {part: [round(step[part], _DIGITS) for step in run.steps] for part in PARTS}
    behind = run.receipt.per_step[len(run.receipt.per_step) - len(run.steps) :]
    columns["num_drafted"] = [float(drafted) for drafted, _ in behind]
    columns["num_accepted"] = [float(accepted) for _, accepted in behind]
    return columns


def _taken(
    before: CpuTime | None, after: CpuTime | None, seconds: float
) -> tuple[float | None, float | None]:
    """Return the mean cores that other processes and other machines took."""
    if before is None or after is None or seconds <= 0:
        return None, None
    others = max(0.0, after.others - before.others) / seconds
    return round(others, 3), round(max(0.0, after.stolen - before.stolen) / seconds, 3)
