"""Drafting a step: from a plan to one block of draft tokens for each decoding sequence.

In: a plan, whose budgets say how many draft tokens each may get. Out: drafts in order. A drafter
that fails on a request costs it its drafts and never an answer.
"""

from __future__ import annotations

import logging

from leeway.acceptance.base import Guarantee
from leeway.core.errors import LeewayError
from leeway.core.types import Draft
from leeway.drafters.base import DraftAsk, Drafter
from leeway.sampling.min_tokens import cut_at_end
from leeway.scheduler.scheduler import Plan
from leeway.scheduler.sequence import Sequence

logger = logging.getLogger("leeway")


def draft_blocks(drafter: Drafter, plan: Plan, temperature_scale: float) -> list[Draft]:
    """Return one draft a decoding sequence, empty where none is wanted or found.

    `temperature_scale` is the multiple of a request's temperature at which drafts are drawn.
    Mutates: a sequence that the drafter fails on drafts no more, or less, which its receipt says.
    """
    asking = [one for one, budget in zip(plan.decoding, plan.budgets, strict=True) if budget > 0]
    asks = [
        DraftAsk(
            request_id=one.request.request_id,
            token_ids=one.token_ids,
            num_draft_tokens=budget,
            sampling=one.sampling,
            history=one.history(),
            coins=one.coins,
            step=one.output_len,
            keep_raw_probs=one.law.reads_raw_rows,
            end_token_ids=one.end_token_ids,
            grammar=one.grammar,
            needs_rows=one.law.info.needs_draft_rows,
            is_lossy=one.law.info.guarantee is Guarantee.NONE,
            temperature_scale=temperature_scale,
        )
        for one, budget in zip(plan.decoding, plan.budgets, strict=True)
        if budget > 0
    ]
    proposed = iter(_propose(drafter, asking, asks))
    drafts = [next(proposed) if budget > 0 else Draft(()) for budget in plan.budgets]
    return [_cut(one, draft) for one, draft in zip(plan.decoding, drafts, strict=True)]


def _cut(sequence: Sequence, draft: Draft) -> Draft:
    """Return the draft before its first token that the request does not allow."""
    num_banned = sequence.sampling.min_tokens - sequence.output_len
    draft = cut_at_end(draft, sequence.end_token_ids, num_banned)
    return draft if sequence.grammar is None else sequence.grammar.cut(draft)


def _propose(drafter: Drafter, asking: list[Sequence], asks: list[DraftAsk]) -> list[Draft]:
    """Ask the drafter; where it fails, for each request once more, alone."""
    try:
        return drafter.propose(asks) if asks else []
    except LeewayError:
        pairs = zip(asking, asks, strict=True)
        return [_propose_alone(drafter, sequence, ask) for sequence, ask in pairs]


def _propose_alone(drafter: Drafter, sequence: Sequence, ask: DraftAsk) -> Draft:
    """Ask for one request; what fails is given up: it goes on, for drafts decide its speed only."""
    try:
        return drafter.propose([ask])[0]
    except LeewayError as error:
        logger.warning(
            "%s: %s failed and is given up: %s", ask.request_id, drafter.name, error.message
        )
        sequence.has_draft_failed = not drafter.give_up(ask.request_id)
        sequence.demotion = "drafter_failed"
        return Draft(())
