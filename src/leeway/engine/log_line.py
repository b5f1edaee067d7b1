"""The log line of a request that a lossy law judged; every way to run the engine logs the same.

In: a receipt. Out: one line without any text of prompt or answer. Numbers and names are the
receipt's own.
"""

from __future__ import annotations

import logging

from leeway.core.receipt import Receipt

TYPICAL = ("typical",)
CASCADES = ("opt", "diff", "tokenv1", "tokenv2", "tokenv3")
_THRESHOLDS = ("delta", "alpha", "ratio", "log_gap")

logger = logging.getLogger("leeway")


def log_lossy(receipt: Receipt, request_id: str) -> None:
    """Log the request if a lossy law judged it; `fields` has the whole receipt, for JSON lines."""
    if is_lossy(receipt):
        fields = {"request": request_id, "receipt": receipt.to_dict()}
        logger.info("%s", lossy_log_line(receipt, request_id), extra={"fields": fields})


def is_lossy(receipt: Receipt) -> bool:
    """Return whether the law that judged makes no promise of exactness."""
    return receipt.guarantee == "none"


def lossy_log_line(receipt: Receipt, request_id: str) -> str:
    """Return the line of one request."""
    tally, rates, loss = receipt.tally, receipt.tally.rates(), receipt.tally.loss()
    options = ",".join(f"{name}={value}" for name, value in sorted(receipt.options.items()))
    fields = {
        "rule": receipt.law,
        "threshold": _threshold(receipt),
        "options": options or "none",
        "positions": tally.num_decided,
        "accepted": tally.num_accepted_tokens,
        "deferred": tally.num_deferred,
        "resamples": tally.num_recovered_tokens,
        "kept_draft_rate": _show(rates["kept_draft_rate"]),
        "deferral_rate": _show(rates["deferral_rate"]),
        "mean_divergence": _show(rates["mean_draft_tv"]),
        "mean_entropy": _show(rates["mean_target_entropy"]),
        "tokens_per_step": _show(rates["tokens_per_verify_step"]),
        "accepted_by_depth": "/".join(str(count) for count in tally.accepted_by_depth) or "none",
        "generated": tally.num_output_tokens,
        "verify_steps": tally.num_verify_steps,
        "loss_tv_mean": _show(loss["total_variation_mean"]),
        "loss_tv_max": _show(loss["total_variation_max"]),
        "loss_kl_mean": _show(loss["kl_mean"]),
        "loss_kl_max": _show(loss["kl_max"]),
        "outside_support": tally.num_outside_support,
        **_limits(receipt),
        "drafter": receipt.drafter,
        "request": request_id,
    }
    shown = " ".join(f"{name}={value}" for name, value in fields.items())
    return f"[{_tag(receipt.law)}] NOT distribution-exact; {shown}"


def _limits(receipt: Receipt) -> dict[str, str]:
    """Return what was spent and might have been; nothing where no limit is set."""
    if receipt.tv_spent is None:
        return {}
    return {"tv_spent": _show(receipt.tv_spent), "tv_budget": _show(receipt.limits.tv_budget)}


def _tag(law: str) -> str:
    if law in TYPICAL:
        return "typical-accept"
    return "cascade-accept" if law in CASCADES else f"law {law}"


def _threshold(receipt: Receipt) -> str:
    """Return the value of the knob that decides what is kept: the law's first number."""
    for name in _THRESHOLDS:
        if name in receipt.options:
            return str(receipt.options[name])
    numbers = [value for value in receipt.options.values() if not isinstance(value, str)]
    return str(numbers[0]) if numbers else "none"


def _show(value: float | None) -> str:
    return "none" if value is None else f"{value:.4f}"
