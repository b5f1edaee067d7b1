"""Verdicts: what a verifier decided about one block."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of judging the k draft tokens of one block.

    Attributes:
        num_accepted: how many leading draft tokens are accepted.
        next_column: column of the token behind them: recovered, or bonus if all were accepted.
        is_bonus: whether that token is the bonus token.
        deferred: for each decided position, whether the rule left it to the target (a coin, a
            redraw) instead of keeping the draft outright. `num_accepted` entries, and one more if
            a token was rejected.
    """

    num_accepted: int
    next_column: int
    is_bonus: bool
    deferred: tuple[bool, ...]
