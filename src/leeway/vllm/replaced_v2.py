"""What stands in for Model Runner V2's verification, without a name of vLLM's in it.

In: the arguments of vLLM's methods. Out: their results. A request's last row is that of its bonus
token, which is drawn here: the function that is replaced draws it too. A batch that this does not
know (warm-up) goes to vLLM's own method.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from leeway.acceptance.blocks import Blocks
from leeway.acceptance.many_coins import draw_many
from leeway.core.types import FloatArray, IntArray
from leeway.vllm.batch import Plan
from leeway.vllm.decider import Decider
from leeway.vllm.judge import Step, judge_step

_WARM_UP = "_warmup_"


@dataclass(frozen=True, slots=True)
class Rows:
    """One step's rows as vLLM lays them out: each request's draft rows, then its bonus row.

    Attributes:
        num_draft_tokens: [num_requests] on the host.
        max_draft_len: no request has more.
        target_logits: [num_logits, vocab_size], after everything that the request asked for.
        raw_logits: the same before all but a grammar.
        draft_logits: [max_num_requests, max_draft_len, vocab_size], before temperature, by slot;
            None where vLLM kept none.
        draft_token_ids: [num_logits]; the token behind a row is that of the next row, and -1
            where the block is to end before it.
        slots: [num_logits], each row's slot.
        temperature: [max_num_requests], by slot.
    """

    num_draft_tokens: IntArray
    max_draft_len: int
    target_logits: torch.Tensor
    raw_logits: torch.Tensor
    draft_logits: torch.Tensor | None
    draft_token_ids: torch.Tensor
    slots: torch.Tensor
    temperature: torch.Tensor


@dataclass(slots=True)
class _Call:
    """The batch that is verified, in one or more chunks, and how far it is."""

    plan: Plan
    coins: FloatArray
    num_draft_tokens: IntArray
    num_done: int = 0


class ReplacedV2:
    """Judges in vLLM's place.

    Args:
        decider: decides.
    """

    def __init__(self, decider: Decider) -> None:
        self._decider = decider
        self._sources: dict[str, object] = {}
        self._call: _Call | None = None

    def add_request(
        self,
        original: Callable[..., Any],
        sampler: Any,  # noqa: ANN401
        slot: int,
        params: object,
    ) -> None:
        """Note a request's sampling parameters; one that was preempted comes back as it was."""
        name = sampler.req_states.index_to_req_id[slot]
        if self._sources.get(name) != params:
            self._sources[name] = params
        original(sampler, slot, params)

    def finish_requests(self, original: Callable[..., Any], runner: Any, output: Any) -> None:  # noqa: ANN401
        """Forget the requests that have ended, and not those that were preempted."""
        original(runner, output)
        for name in output.finished_req_ids:
            self._sources.pop(name, None)

    def call(
        self,
        original: Callable[..., Any],
        sampler: Any,  # noqa: ANN401
        logits: torch.Tensor,
        batch: Any,  # noqa: ANN401
        *args: Any,  # noqa: ANN401
        **kwargs: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        """Note whose rows are verified, while the rejection sampler runs."""
        ids = batch.req_ids
        if all(name in self._sources and not name.startswith(_WARM_UP) for name in ids):
            plan = self._decider.plan(ids, [self._sources[name] for name in ids], self._sources)
            # Each request draws a token here, drafted or not.
            coins = plan.throw(sampler.num_speculative_steps, np.ones(len(ids), dtype=np.bool_))
            num_draft_tokens = np.diff(batch.cu_num_logits_np).astype(np.int64) - 1
            self._call = _Call(plan, coins, num_draft_tokens)
        try:
            return original(sampler, logits, batch, *args, **kwargs)
        finally:
            self._call = None

    def verify(  # noqa: PLR0917
        self,
        original: Callable[..., Any],
        sampler: Any,  # noqa: ANN401
        logits: torch.Tensor,
        draft_logits: torch.Tensor | None,
        draft_sampled: torch.Tensor,
        pos: torch.Tensor,
        cu_num_logits: torch.Tensor,
        idx_mapping: torch.Tensor,
        idx_mapping_np: np.ndarray,
        expanded_idx_mapping: torch.Tensor,
        expanded_local_pos: torch.Tensor,
        seq_lens_upper_bound_np: np.ndarray,
        verify_draft_sampled: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the processed rows, the tokens and how many there are of each request.

        Arguments as vLLM's. Tokens are [num_requests, max_draft_len + 1] int64, -1 behind the last.
        """
        call = self._call
        if call is None:
            own: tuple[torch.Tensor, torch.Tensor, torch.Tensor] = original(
                sampler, logits, draft_logits, draft_sampled, pos, cu_num_logits, idx_mapping,
                idx_mapping_np, expanded_idx_mapping, expanded_local_pos, seq_lens_upper_bound_np,
                verify_draft_sampled,
            )  # fmt: skip
            return own
        processed = sampler.sampler.apply_sampling_params(
            logits, expanded_idx_mapping, idx_mapping, idx_mapping_np, pos, draft_sampled,
            expanded_local_pos, seq_lens_upper_bound_np,
        )  # fmt: skip
        chunk = slice(call.num_done, call.num_done + len(idx_mapping_np))
        call.num_done = chunk.stop
        plan, coins = call.plan.part(chunk), call.coins[chunk]
        rows = Rows(
            num_draft_tokens=call.num_draft_tokens[chunk],
            max_draft_len=sampler.num_speculative_steps,
            target_logits=processed,
            raw_logits=logits,
            draft_logits=draft_logits,
            draft_token_ids=verify_draft_sampled,
            slots=expanded_idx_mapping,
            temperature=sampler.sampler.sampling_states.temperature.gpu,
        )
        tokens = judge_step(step_of(rows, plan, coins), plan, coins, self._decider.tally)
        num_tokens = (tokens >= 0).sum(dim=1, dtype=torch.int32)
        return processed, tokens.to(torch.int64), num_tokens


def step_of(rows: Rows, plan: Plan, coins: FloatArray) -> Step:
    """Return the step of these rows, its bonus tokens drawn.

    Args:
        rows: as vLLM lays them out.
        plan: of the same requests.
        coins: [num_requests, max_draft_len + 1]; the last column decides the bonus token: a block
            has either that or a recovered one.
    """
    device = rows.target_logits.device
    num = rows.num_draft_tokens
    ends = np.cumsum(num + 1)
    is_draft = np.ones(int(ends[-1]), dtype=np.bool_)
    is_draft[ends - 1] = False
    draft_rows = torch.from_numpy(np.flatnonzero(is_draft)).to(device)
    ids = rows.draft_token_ids[draft_rows + 1].to(torch.int64)
    lengths = _lengths(ids, num, rows.max_draft_len)
    bonus_rows = torch.from_numpy(ends - 1 - num).to(device) + lengths

    target, draft = rows.target_logits, None
    if rows.draft_logits is not None:
        width = min(target.shape[-1], rows.draft_logits.shape[-1])
        target = target[:, :width]
        if not plan.is_greedy.all():
            draft = _draft_probs(rows, draft_rows, num, width)
    return Step(
        draft_token_ids=ids.clamp(min=0),
        num_draft_tokens=num,
        max_draft_len=rows.max_draft_len,
        target_logits=target[draft_rows],
        draft_probs=draft,
        raw_logits=(
            rows.raw_logits[draft_rows, : target.shape[-1]] if plan.reads_raw_rows else None
        ),
        bonus_token_ids=_bonus(target[bonus_rows], plan.is_greedy, coins[:, -1]),
        lengths=lengths,
    )


def _lengths(ids: torch.Tensor, num: IntArray, max_draft_len: int) -> torch.Tensor:
    """Return how many draft tokens of each request come before its first -1: [num_requests]."""
    counts = torch.from_numpy(num).to(ids.device)
    blocks = Blocks(torch.cumsum(counts, dim=0) - counts, counts, max_draft_len)
    is_valid: torch.Tensor = blocks.grid(ids >= 0) & blocks.is_drafted
    return is_valid.to(torch.int64).cumprod(dim=1).sum(dim=1)


def _draft_probs(rows: Rows, draft_rows: torch.Tensor, num: IntArray, width: int) -> torch.Tensor:
    """Return the rows that drafts were drawn from: [num_draft_rows, width]."""
    assert rows.draft_logits is not None
    offsets = np.arange(int(num.sum())) - np.repeat(np.cumsum(num) - num, num)
    slots = rows.slots[draft_rows].to(torch.int64)
    kept = rows.draft_logits[slots, torch.from_numpy(offsets).to(slots.device), :width]
    temperature = rows.temperature[slots]
    temperature = torch.where(temperature == 0, torch.ones_like(temperature), temperature)
    return torch.softmax(kept.to(torch.float32) / temperature[:, None], dim=-1)


def _bonus(logits: torch.Tensor, is_greedy: np.ndarray, coins: FloatArray) -> torch.Tensor:
    """Return the token of each request's bonus row: [num_requests]."""
    best = logits.argmax(dim=-1)
    if is_greedy.all():
        return best
    device = logits.device
    probs = torch.softmax(logits, dim=-1, dtype=torch.float32)
    drawn = draw_many(probs, torch.from_numpy(np.ascontiguousarray(coins)).to(device))
    return torch.where(torch.from_numpy(is_greedy).to(device), best, drawn)
