"""Verifying the blocks of many requests at once: `verify` for arrays on a device.

In: a law, flat rows of all blocks, coins as numbers. Out: verdicts as arrays. Nothing here loops
over requests or looks at a value, so the same operations run whatever the rows hold: they can be
recorded in a graph, and every rank that has the same rows and coins decides alike.

The recovered row is computed at one position of each request, the rejected one.
"""

from __future__ import annotations

from dataclasses import dataclass

from leeway.acceptance.algebra import (
    at,
    most_likely,
    namespace,
    normalise,
    positive_part,
    smallest,
    total,
    without,
)
from leeway.acceptance.base import Array, Guarantee, Law, RowPair
from leeway.acceptance.blocks import Blocks
from leeway.acceptance.exact import with_draft_rows
from leeway.acceptance.many_coins import draw_many
from leeway.core.errors import LawError

_EXACT = Guarantee.EXACT_DISTRIBUTION


@dataclass(frozen=True, slots=True)
class ManyVerdicts:
    """The outcome of judging one block of each request.

    Attributes:
        num_accepted: [num_requests], how many leading draft tokens are accepted.
        next_columns: [num_requests], column of the token behind them: recovered, or bonus if all
            were accepted; -1 for a bonus that was not asked for.
        is_bonus: [num_requests], whether all were accepted.
        is_kept: [num_requests, max_draft_len], whether the rule kept the draft token outright
            instead of leaving it to the target (a coin, a redraw).
        is_decided: [num_requests, max_draft_len], positions up to and including the rejection.
    """

    num_accepted: Array
    next_columns: Array
    is_bonus: Array
    is_kept: Array
    is_decided: Array


@dataclass(frozen=True, slots=True)
class _Judged:
    """Accepted tokens, kept places of the grid, and the row drawn from on rejection."""

    num_accepted: Array
    is_kept: Array
    recovered_probs: Array


def verify_many(  # noqa: PLR0917
    law: Law,
    rows: RowPair,
    draft_columns: Array,
    blocks: Blocks,
    next_target_probs: Array | None,
    accept_uniforms: Array,
    next_uniforms: Array,
) -> ManyVerdicts:
    """Judge one block of each request with the law's own verifier.

    A law that matches is judged token by token: the same joint law, but with coins the answer is
    not that of plain decoding, token for token.

    Args:
        law: decides; its `verifier` says how.
        rows: flat rows, [num_rows, num_columns]. Draft rows of None are point masses at the
            drafted columns; block verification of a lossy law writes them out, others do not.
        draft_columns: [num_rows], integers; any column at rows that `blocks` does not name.
        blocks: where each request's rows lie.
        next_target_probs: [num_requests, num_columns], the target's row behind the last draft
            token of each request; None if somebody else draws the bonus tokens.
        accept_uniforms: [num_requests, max_draft_len], in [0, 1), a coin for each position.
        next_uniforms: [num_requests], in [0, 1), a coin for the recovered or bonus token.

    Raises:
        LawError: the law reads draft rows, and there are none.
    """
    _check_rows(law, rows)
    xp = namespace(draft_columns)
    columns = xp.astype(draft_columns, xp.int64, copy=False)
    if 0 in accept_uniforms.shape or columns.shape[0] == 0:
        num_accepted = xp.zeros_like(blocks.num_draft_tokens)
        is_kept, recovered = xp.zeros_like(blocks.is_drafted), -1
    else:
        judge = _by_block if law.verifier == "block" else _by_token
        judged = judge(law, rows, columns, blocks, accept_uniforms)
        num_accepted, is_kept = judged.num_accepted, judged.is_kept
        recovered = draw_many(judged.recovered_probs, next_uniforms)
    is_bonus = num_accepted >= blocks.num_draft_tokens
    bonus = -1
    if next_target_probs is not None:
        bonus = _bonus_columns(law, next_target_probs, next_uniforms)
    return ManyVerdicts(
        num_accepted=num_accepted,
        next_columns=xp.where(is_bonus, bonus, recovered),
        is_bonus=is_bonus,
        is_kept=is_kept,
        is_decided=blocks.is_up_to(num_accepted),
    )


def _by_token(
    law: Law, rows: RowPair, draft_columns: Array, blocks: Blocks, coins: Array
) -> _Judged:
    """Judge as `verify_token` does.

    **Source**: Leviathan et al. 2023, arXiv 2211.17192, Algorithm 1.
    """
    kept, accept = law.judge(rows, draft_columns)
    xp = namespace(accept)
    is_drafted = blocks.is_drafted
    rejects = ~(is_drafted & (coins < blocks.grid(accept)))
    num_rejected_before = xp.cumulative_sum(xp.astype(rejects, xp.int64), axis=-1)
    num_accepted = total(xp.astype(num_rejected_before == 0, xp.int64))
    at_rejection = blocks.rows_at(num_accepted)
    rejected = draft_columns[at_rejection]
    return _Judged(
        num_accepted=num_accepted,
        is_kept=is_drafted & blocks.grid(kept),
        recovered_probs=law.recovered_probs(rows.part(at_rejection), rejected),
    )


def _by_block(
    law: Law, rows: RowPair, draft_columns: Array, blocks: Blocks, coins: Array
) -> _Judged:
    """Judge as `verify_block` does; the names are those of its formulas.

    **Source**: Sun et al. 2025, arXiv 2403.10444, Algorithm 2.
    """
    is_certain_draft = rows.draft_probs is None and law.info.guarantee is _EXACT
    rows = rows if is_certain_draft else with_draft_rows(rows, draft_columns)
    emitted, draft = rows.target_probs, rows.draft_probs
    if not is_certain_draft:
        emitted = law.emitted_probs(rows)
    xp = namespace(emitted)
    is_drafted = blocks.is_drafted
    own = at(emitted, draft_columns)
    ratios = own, xp.ones_like(own) if is_certain_draft else at(draft, draft_columns)
    weights = _path_weights(*(xp.astype(blocks.grid(one), xp.float64) for one in ratios))
    before, behind = weights[:, :-1], weights[:, 1:]

    weight_before = xp.astype(before[blocks.places(draft_columns.shape[0])], emitted.dtype)
    if is_certain_draft:  # w p - 1 is never positive at the drafted column
        mass = weight_before * positive_part(total(emitted) - own)
    else:
        mass = total(positive_part(weight_before[:, None] * emitted - draft))
    mass = xp.astype(xp.where(is_drafted, blocks.grid(mass), 0.0), xp.float64)
    mass_behind = xp.concat([mass[:, 1:], xp.zeros_like(mass[:, :1])], axis=-1)
    is_certain = behind >= 1.0
    threshold = mass_behind / (mass_behind + xp.where(is_certain, 1.0, 1.0 - behind))
    is_last = blocks.is_last()
    threshold = xp.where(is_last, behind, threshold)
    stands = is_drafted & (coins < xp.where(is_certain, 1.0, threshold))
    lengths = xp.arange(1, coins.shape[-1] + 1, device=coins.device)
    num_accepted = xp.max(xp.where(stands, lengths, 0), axis=-1)

    at_rejection = blocks.rows_at(num_accepted)
    fallback = emitted[at_rejection]
    if is_certain_draft:
        leftover = without(fallback, draft_columns[at_rejection])
    else:
        weight = xp.astype(at(weights, num_accepted), emitted.dtype)[:, None]
        leftover = positive_part(weight * fallback - draft[at_rejection])
    return _Judged(
        num_accepted=num_accepted,
        is_kept=is_drafted & is_certain,
        recovered_probs=normalise(leftover, fallback),
    )


def _path_weights(emitted: Array, draft: Array) -> Array:
    """Return P_0 to P_k: [num_requests, max_draft_len + 1]."""
    xp = namespace(emitted)
    ratios = emitted / xp.clip(draft, smallest(draft), None)  # finite, and > 0 where emitted is
    weights = [xp.ones_like(ratios[:, 0])]
    for place in range(ratios.shape[1]):
        weights.append(xp.clip(weights[-1] * ratios[:, place], None, 1.0))
    return xp.stack(weights, axis=-1)


def _bonus_columns(law: Law, target_probs: Array, coins: Array) -> Array:
    if law.info.guarantee is Guarantee.EXACT_GREEDY:
        return most_likely(target_probs)
    return draw_many(target_probs, coins)


def _check_rows(law: Law, rows: RowPair) -> None:
    if law.info.needs_draft_rows and rows.draft_probs is None:
        raise LawError(
            f"law {law.info.name!r} reads the rows that drafts are drawn from, and these drafts "
            "have none (n-gram or greedy drafting); use a drafter that samples and keeps its rows, "
            "or a law that can do without them (`leeway laws` shows which)",
            param="law",
        )
