"""Limits of a request: whether its law can keep them, and the state that keeps them.

A law with a guarantee needs none. Greedy decoding above temperature 0 follows the target nowhere,
at positions without a draft neither, so that no limit could hold it: the two are refused together.
"""

from __future__ import annotations

from leeway.acceptance.base import Guarantee, Law
from leeway.core.errors import LawError
from leeway.core.limits import Limits
from leeway.core.types import Request, SamplingParams
from leeway.scheduler.limit_state import LimitState
from leeway.text.span import watch_answer
from leeway.text.tokenizer import Tokenizer


def check_limits(law: Law, limits: Limits, sampling: SamplingParams) -> None:
    """Refuse limits that the law cannot keep.

    Raises:
        LawError: the law is greedy above temperature 0, and a limit goes by position.
    """
    is_greedy = law.info.guarantee is Guarantee.EXACT_GREEDY
    if is_greedy and sampling.temperature > 0 and limits.is_by_position:
        raise LawError(
            f"law {law.info.name!r} at temperature {sampling.temperature:g} never follows the "
            "target's distribution, so that tv_budget, exact_prefix and phase cannot hold; allowed "
            "with them: temperature 0, or another law (`leeway laws` lists all)",
            param="law",
        )


def start_limits(
    law: Law, limits: Limits, tokenizer: Tokenizer, request: Request
) -> LimitState | None:
    """Return the state that keeps the limits of one answer; None where there is nothing to keep."""
    if law.info.guarantee is not Guarantee.NONE or not limits.is_active:
        return None
    watch = None
    if limits.phase == "reasoning":
        begin, end = limits.phase_begin, limits.phase_end
        watch = watch_answer(tokenizer, begin, end, request.prompt_token_ids)
    return LimitState(limits, watch, is_whole=request.sampling.temperature == 0)
