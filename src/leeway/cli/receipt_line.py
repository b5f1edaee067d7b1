"""A receipt in one line, for people."""

from __future__ import annotations

from leeway.core.receipt import Receipt


def receipt_line(receipt: Receipt) -> str:
    """Return law, speed, rates and loss in one line.

    Speed counts the tokens behind the first, over the time of their verify steps.
    """
    tally = receipt.tally
    rates, loss = tally.rates(), tally.loss()
    options = ", ".join(f"{key}={value}" for key, value in receipt.options.items())
    law = f"{receipt.law}({options})" if options else receipt.law
    if receipt.requested_law != receipt.law:
        law += f" (asked for {receipt.requested_law})"
    parts = [f"law {law}", f"guarantee {receipt.guarantee}", f"{tally.num_output_tokens} tokens"]
    if tally.decode_s > 0 and tally.num_output_tokens > 1:
        parts.append(f"{(tally.num_output_tokens - 1) / tally.decode_s:.1f} tokens/s")
    if tally.num_draft_tokens:
        parts.append(f"{_number(rates['tokens_per_verify_step'], 2)} tokens per verify step")
        parts.append(f"draft_acceptance_rate {_number(rates['draft_acceptance_rate'], 3)}")
        parts.append(f"loss TV {_number(loss['total_variation_mean'], 4)} mean")
    else:
        parts.append("nothing drafted")
    if receipt.tv_spent is not None:
        budget = receipt.limits.tv_budget
        limit = "" if budget is None else f" of tv_budget {budget:g}"
        parts.append(f"TV spent {receipt.tv_spent:.4f}{limit}")
    return f"[receipt] {'; '.join(parts)}; seed {receipt.seed}"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
