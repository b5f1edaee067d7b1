"""One verify step inside vLLM: from the target's rows to tokens, each law on its own requests.

In: flat rows as vLLM lays them out, a plan. Out: tokens in vLLM's layout. The loop is over distinct
laws; within one, everything is a tensor and nothing waits for the device. Knows no vLLM types.

Temperature, top-k, top-p, penalties, masks and bonus tokens are vLLM's own: rows come prepared. A
token that was masked has no probability in them, and hard support (on by default) keeps every law
from emitting it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from leeway.acceptance.base import Guarantee, Law, RowPair
from leeway.acceptance.blocks import Blocks
from leeway.acceptance.loss import loss_many
from leeway.acceptance.registry import build_law
from leeway.acceptance.verify_many import ManyVerdicts, verify_many
from leeway.core.types import Acceptance, FloatArray, IntArray
from leeway.vllm.batch import Group, Plan, engaged_name
from leeway.vllm.tally import Label, Tally

NO_TOKEN = -1


@dataclass(frozen=True, slots=True)
class Step:
    """What vLLM hands over. Rows are flat: each request's draft positions lie consecutively.

    Attributes:
        draft_token_ids: [num_rows].
        num_draft_tokens: [num_requests] on the host.
        max_draft_len: the largest of these.
        target_logits: [num_rows, vocab_size], after everything that the request asked for.
        draft_probs: [num_rows, vocab_size], the rows that drafts were drawn from; None where vLLM
            kept none: each draft counts as certain.
        raw_logits: [num_rows, vocab_size], the target's after the grammar and before all else;
            needed only by laws that read raw rows.
        bonus_token_ids: [num_requests], drawn already.
        lengths: [num_requests], how many of its draft tokens are judged of each request, the bonus
            token standing behind them; None is all of them.
    """

    draft_token_ids: torch.Tensor
    num_draft_tokens: IntArray
    max_draft_len: int
    target_logits: torch.Tensor
    draft_probs: torch.Tensor | None
    raw_logits: torch.Tensor | None
    bonus_token_ids: torch.Tensor
    lengths: torch.Tensor | None = None


def judge_step(step: Step, plan: Plan, coins: FloatArray, tally: Tally | None) -> torch.Tensor:
    """Return accepted, recovered and bonus tokens: [num_requests, max_draft_len + 1] int32.

    Each row is filled up with -1.

    Args:
        step: what vLLM hands over.
        plan: of the same requests.
        coins: [num_requests, max_draft_len + 1], from `plan.throw`.
        tally: counts the step, where there is one.
    """
    num = step.num_draft_tokens
    is_drafted = num > 0
    if bool(is_drafted.all()) and len(plan.groups) == 1:
        return _judge_group(step, plan.groups[0], coins, tally)
    device = step.target_logits.device
    size = (len(num), step.max_draft_len + 1)
    tokens = torch.full(size, NO_TOKEN, dtype=torch.int32, device=device)
    tokens[:, 0] = step.bonus_token_ids.to(torch.int32)  # stays where nothing was drafted
    for group in plan.groups:
        members = np.flatnonzero(group.members & is_drafted)
        if len(members):
            part = _part(step, members)
            chosen = torch.from_numpy(members).to(device)
            tokens[chosen] = _judge_group(part, group, coins[members], tally)
    return tokens


def _part(step: Step, members: IntArray) -> Step:
    """Return the step of some of the requests."""
    num = step.num_draft_tokens
    is_member = np.zeros(len(num), dtype=np.bool_)
    is_member[members] = True
    device = step.target_logits.device
    rows = torch.from_numpy(np.flatnonzero(np.repeat(is_member, num))).to(device)
    requests = torch.from_numpy(members).to(device)
    return Step(
        draft_token_ids=step.draft_token_ids[rows],
        num_draft_tokens=num[members],
        max_draft_len=step.max_draft_len,
        target_logits=step.target_logits[rows],
        draft_probs=None if step.draft_probs is None else step.draft_probs[rows],
        raw_logits=None if step.raw_logits is None else step.raw_logits[rows],
        bonus_token_ids=step.bonus_token_ids[requests],
        lengths=None if step.lengths is None else step.lengths[requests],
    )


def _judge_group(step: Step, group: Group, coins: FloatArray, tally: Tally | None) -> torch.Tensor:
    device = step.target_logits.device
    num = torch.from_numpy(step.num_draft_tokens.astype(np.int64)).to(device)
    first_rows = torch.cumsum(num, dim=0) - num
    num = num if step.lengths is None else step.lengths
    blocks = Blocks(first_rows, num, step.max_draft_len)
    if group.is_match:
        label = Label(engaged_name(group), _guarantee(group), "greedy")
        verdicts = _match(step, blocks)
        losses = None
    else:
        law, rows = _engage(step, group)
        label = Label(law.info.name, str(law.info.guarantee), _draft_kind(group, rows))
        thrown = torch.from_numpy(coins).to(device)
        ids = step.draft_token_ids.to(torch.int64)
        verdicts = verify_many(law, rows, ids, blocks, None, thrown[:, :-1], thrown[:, -1])
        losses = None
        if tally is not None and tally.is_metered(label):
            losses = loss_many(law, rows, ids, blocks, verdicts.is_decided)
    if tally is not None:
        tally.add(label, num, verdicts, losses)
    return _tokens(step, blocks, verdicts)


def _engage(step: Step, group: Group) -> tuple[Law, RowPair]:
    """Return the law that runs and its rows.

    A law that reads draft rows judges only drafts that have them: where vLLM kept none (a step in
    which every request was greedy), the exact coin judges.
    """
    law = group.law
    draft_probs = None if group.is_greedy else step.draft_probs
    if law.info.needs_draft_rows and draft_probs is None:
        law = build_law(Acceptance("rejection"))
    if group.is_greedy:
        best = step.target_logits.argmax(dim=-1, keepdim=True)
        target = torch.zeros_like(step.target_logits, dtype=torch.float32)
        target = target.scatter_(-1, best, 1.0)
    else:
        target = torch.softmax(step.target_logits, dim=-1, dtype=torch.float32)
    raw = None
    if law.reads_raw_rows:
        assert step.raw_logits is not None
        raw = torch.softmax(step.raw_logits, dim=-1, dtype=torch.float32)
    return law, RowPair(target, draft_probs, raw)


def _match(step: Step, blocks: Blocks) -> ManyVerdicts:
    """Keep drafts as long as each is the target's most likely token."""
    best = step.target_logits.argmax(dim=-1)
    is_match = blocks.grid(best == step.draft_token_ids) & blocks.is_drafted
    num_accepted = is_match.to(torch.int64).cumprod(dim=1).sum(dim=1)
    return ManyVerdicts(
        num_accepted=num_accepted,
        next_columns=best[blocks.rows_at(num_accepted)],
        is_bonus=num_accepted == blocks.num_draft_tokens,
        is_kept=is_match,
        is_decided=blocks.is_up_to(num_accepted),
    )


def _tokens(step: Step, blocks: Blocks, verdicts: ManyVerdicts) -> torch.Tensor:
    drafts = blocks.grid(step.draft_token_ids.to(torch.int64))
    bonus = step.bonus_token_ids.to(torch.int64)
    last = torch.where(verdicts.is_bonus, bonus, verdicts.next_columns)[:, None]
    depth = torch.arange(blocks.max_draft_len + 1, device=drafts.device)
    num_accepted = verdicts.num_accepted[:, None]
    padded = torch.cat([drafts, last], dim=1)
    tokens = torch.where(depth < num_accepted, padded, last)
    return torch.where(depth <= num_accepted, tokens, NO_TOKEN).to(torch.int32)


def _draft_kind(group: Group, rows: RowPair) -> str:
    if group.is_greedy:
        return "greedy"
    return "point_mass" if rows.draft_probs is None else "rows"


def _guarantee(group: Group) -> str:
    given = group.law.info.guarantee
    return str(Guarantee.EXACT_GREEDY if given is Guarantee.NONE else given)
