"""Judging one block: from the target's logits to the tokens that the law keeps.

In: a sequence, its draft, the target's logits behind each drafted position. Out: tokens in order
with their provenance, and the numbers for the receipt. Changes nothing; commit does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leeway.acceptance.algebra import at, entropy
from leeway.acceptance.base import Law, RowPair
from leeway.acceptance.loss import draft_total_variation, loss
from leeway.acceptance.verdict import Verdict
from leeway.acceptance.verify import verify
from leeway.core.types import Draft, FloatArray, IntArray, Provenance
from leeway.sampling import penalties
from leeway.sampling.align import align, expand
from leeway.sampling.min_tokens import ban_end
from leeway.sampling.warp import softmax, warp
from leeway.scheduler.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Measures:
    """The receipt's numbers over the decided positions of one block.

    Attributes:
        num_deferred: positions at which the rule deferred to the target.
        draft_tv: [num_decided], TV(target row, draft row); 1 less it is the chance that an exact
            law keeps a token drawn from the draft row.
        loss_tv, loss_kl: [num_decided], divergence of the emitted row from the target row.
        target_entropy_sum: nats.
    """

    num_deferred: int
    draft_tv: FloatArray
    loss_tv: FloatArray
    loss_kl: FloatArray
    target_entropy_sum: float


@dataclass(frozen=True, slots=True)
class Judgement:
    """What one verify step decided for one sequence.

    Attributes:
        token_ids: accepted draft tokens, then the recovered or bonus token.
        provenance: one entry a token.
        num_drafted: draft tokens judged.
        num_accepted: of these accepted.
        measures: None where nothing was decided.
    """

    token_ids: tuple[int, ...]
    provenance: tuple[Provenance, ...]
    num_drafted: int
    num_accepted: int
    measures: Measures | None


def judge(sequence: Sequence, draft: Draft, logits: FloatArray) -> Judgement:
    """Return the law's decision on one block.

    Args:
        sequence: gives law, coins, sampling parameters and history; not changed.
        draft: the block, possibly empty.
        logits: [num_draft_tokens + 1, vocab_size].

    Raises:
        LeewayError: no token may come, by the model's numbers or the request's grammar.
    """
    law, sampling = sequence.law, sequence.sampling
    num_banned = sampling.min_tokens - sequence.output_len
    if num_banned > 0:
        logits = ban_end(logits, sequence.end_token_ids, num_banned)
    if sequence.grammar is not None:
        logits = sequence.grammar.mask(logits, draft.token_ids)
    changed = logits
    if penalties.is_active(sampling):
        changed = penalties.penalise(logits, sampling, sequence.history(), draft.token_ids)
    aligned = align(warp(changed, sampling), draft, logits.shape[-1])
    if law.reads_raw_rows:
        aligned = expand(aligned, logits.shape[-1])
    rows = RowPair(
        aligned.target_probs[:-1],
        aligned.draft_probs,
        softmax(logits[:-1]) if law.reads_raw_rows else None,
        draft.raw_probs if law.reads_raw_rows else None,
        None if aligned.target_entropies is None else aligned.target_entropies[:-1],
    )
    if sequence.limit_state is not None:
        rows = sequence.limit_state.apply(law, rows, draft.token_ids, sequence.output_len)
    bonus_row, columns = aligned.target_probs[-1], aligned.draft_columns
    verdict = verify(law, rows, bonus_row, columns, sequence.coins, sequence.output_len)
    if sequence.grammar is not None and verdict.is_bonus:
        sequence.grammar.check_next(draft.token_ids)
    last = Provenance.BONUS if verdict.is_bonus else Provenance.RECOVERED
    accepted = draft.token_ids[: verdict.num_accepted]
    return Judgement(
        token_ids=(*accepted, aligned.token_id(verdict.next_column)),
        provenance=(*(Provenance.ACCEPTED for _ in accepted), last),
        num_drafted=len(draft.token_ids),
        num_accepted=verdict.num_accepted,
        measures=_measure(law, rows, draft, columns, verdict) if verdict.deferred else None,
    )


def _measure(
    law: Law, rows: RowPair, draft: Draft, draft_columns: IntArray, verdict: Verdict
) -> Measures:
    num_decided = len(verdict.deferred)
    decided = rows.part(slice(num_decided))
    loss_tv, loss_kl = loss(law, decided)
    if draft.rows is None:  # TV from a point mass is what the target gives to other tokens
        draft_tv = 1.0 - at(decided.target_probs, draft_columns[:num_decided])
    else:
        draft_tv = draft_total_variation(decided)
    return Measures(
        num_deferred=sum(verdict.deferred),
        draft_tv=draft_tv,
        loss_tv=loss_tv,
        loss_kl=loss_kl,
        target_entropy_sum=float(np.sum(_entropies(decided))),
    )


def _entropies(rows: RowPair) -> FloatArray:
    known: FloatArray | None = rows.target_entropies
    return entropy(rows.target_probs) if known is None else known
