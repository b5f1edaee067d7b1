"""The limits of one request while it runs: what is spent, and where the answer stands.

Moved by commit only. What it says of position i of a block is a function of committed tokens, of
the block's rows up to i and of its drafted tokens before i; never of token i, of later ones, or of
a coin of this block that has not decided an earlier position.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from leeway.acceptance.base import Law, RowPair
from leeway.acceptance.limits import plan_shares
from leeway.core.limits import Limits
from leeway.text.span import SpanWatch


@dataclass(slots=True)
class LimitState:
    """The ledger and the phase of one request under a lossy law.

    **The ledger.** A position is charged TV(e, p) of the row e that it was emitted from, against
    the target's row p, given what stood before it; bonus positions and those without a draft are
    the target's own and cost 0. Each may spend at most what is left, so `spent` <= `tv_budget` in
    every answer.

    **The bound.** Let P be the target's law of the whole answer and L the served one. Then
    TV(L, P) <= E[spent], the mean over answers of L, and so TV(L, P) <= `tv_budget`.

    Proof. Let H_n be the process that serves n tokens and then goes on as the target does, so that
    H_0 has law P, and H_N law L for the most tokens N. H_n and H_(n-1) differ in token n alone:
    given the past F it comes from e_n in one and from p_n in the other, and what follows is the
    same function of the tokens in both. Coupling that token given F, TV(H_n, H_(n-1)) <=
    E[TV(e_n, p_n)], the mean over F under L, which is the mean of what position n is charged, if
    (1) e_n is the law of token n given F, and (2) the charge is a function of F. Summing over n
    gives the first claim, the cap the second. (2) is the rule in this module's docstring. (1) holds
    token by token, whose coins are independent of F. Under block verification F says of the
    block only that position i was reached, tau >= i - 1, and its drafted prefix: of mass q(prefix)
    P_(i-1) in the notation of `verify_block`, min(q_i, P_(i-1) e_i) of which goes on with a draft
    and (P_(i-1) e_i - q_i)+ with a recovered token; together P_(i-1) e_i. An answer that ends
    earlier is charged for delivered tokens only: what is discarded is not part of it.

    So `spent` of one answer is a sample whose mean over answers bounds the distance, while the
    budget bounds it always. A budget of 1 or more bounds nothing in distance, but still the sum.

    Attributes:
        limits: as they hold for this request.
        watch: where the answer stands, for a phase; None acts anywhere.
        is_whole: at temperature 0 a position is spent whole or not at all, so that greedy decoding
            throws no coin.
        spent: total variation of the delivered positions so far.
    """

    limits: Limits
    watch: SpanWatch | None = None
    is_whole: bool = False
    spent: float = 0.0

    def apply(
        self, law: Law, rows: RowPair, draft_token_ids: Sequence[int], output_len: int
    ) -> RowPair:
        """Return the rows of a block with the share by which the law may act at each position.

        Args:
            law: the law under these limits.
            rows: [num_draft_tokens, num_columns].
            draft_token_ids: the drafted tokens.
            output_len: tokens committed before the block.
        """
        num_rows = len(draft_token_ids)
        if num_rows == 0 or not self.limits.is_by_position:
            return rows
        is_open = [output_len + row >= self.limits.exact_prefix for row in range(num_rows)]
        if self.watch is not None:
            inside = self.watch.inside(draft_token_ids)
            is_open = [one and other for one, other in zip(is_open, inside, strict=True)]
        budget = self.limits.tv_budget
        left = None if budget is None else max(0.0, budget - self.spent)
        shares = plan_shares(law, rows, is_open, left, is_whole=self.is_whole)
        return replace(rows, lossy_share=shares)

    def advance(self, token_ids: Sequence[int], loss_tv: Iterable[float]) -> None:
        """Charge the delivered tokens of a block, and move behind them.

        Args:
            token_ids: delivered tokens.
            loss_tv: of the block's decided positions, from its first; the others cost 0.
        """
        for _, variation in zip(token_ids, loss_tv, strict=False):
            self.spent += float(variation)
        if self.watch is not None:
            self.watch.feed(token_ids)
