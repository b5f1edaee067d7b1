"""Counts of what was judged, by engaged law, kept where the tensors are.

In: the verdicts of one verify step. Out: a snapshot of sums by label. Adding never waits for the
device; only `snapshot` reads it. Knows neither vLLM nor where the numbers go.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import torch

from leeway.acceptance.verify_many import ManyVerdicts

FIELDS = (
    "verify_steps",
    "draft_tokens",
    "positions_decided",
    "accepted",
    "deferred",
    "resampled",
    "loss_positions",
    "loss_total_variation",
    "loss_kl",
    "outside_support",
)


@dataclass(frozen=True, slots=True)
class Label:
    """What ran.

    Attributes:
        law: the engaged law.
        guarantee: what it promises.
        draft_rows: `rows`, `point_mass` (vLLM kept none, or the draft was certain) or `greedy`
            (temperature 0).
    """

    law: str
    guarantee: str
    draft_rows: str


class Tally:
    """Sums by label, where the verdicts lie.

    Args:
        meter_every: measure the loss at every so many steps of a label; 0 never.
    """

    def __init__(self, meter_every: int) -> None:
        self._meter_every = meter_every
        self._sums: dict[Label, torch.Tensor] = {}
        self._num_steps: dict[Label, int] = {}
        self._lock = threading.Lock()

    def is_metered(self, label: Label) -> bool:
        """Return whether the loss is to be measured at this step of the label."""
        every = self._meter_every
        return every > 0 and self._num_steps.get(label, 0) % every == 0

    def add(
        self,
        label: Label,
        num_draft_tokens: torch.Tensor,
        verdicts: ManyVerdicts,
        losses: tuple[torch.Tensor, torch.Tensor] | None,
    ) -> None:
        """Count one step of one label.

        Args:
            label: what ran.
            num_draft_tokens: [num_requests], 0 where nothing was judged.
            verdicts: of the same requests.
            losses: (TV, KL), each [num_requests, max_draft_len], 0 where not decided; None where
                nothing was measured.
        """
        added = _counts(num_draft_tokens, verdicts, losses)
        with self._lock:
            known = self._sums.get(label)
            self._sums[label] = added if known is None else known + added
            self._num_steps[label] = self._num_steps.get(label, 0) + 1

    def snapshot(self) -> dict[Label, dict[str, float]]:
        """Return the sums so far, by label and field; waits for the device."""
        with self._lock:
            sums = dict(self._sums)
        return {
            label: dict(zip(FIELDS, values.tolist(), strict=True)) for label, values in sums.items()
        }


def _counts(
    num_draft_tokens: torch.Tensor,
    verdicts: ManyVerdicts,
    losses: tuple[torch.Tensor, torch.Tensor] | None,
) -> torch.Tensor:
    """Return what a step adds to each of `FIELDS`: float64."""
    decided = verdicts.is_decided
    by_request = (
        num_draft_tokens > 0,
        num_draft_tokens,
        decided.sum(dim=1),
        verdicts.num_accepted,
        (decided & ~verdicts.is_kept).sum(dim=1),
        ~verdicts.is_bonus,
    )
    counts = torch.stack(by_request).sum(dim=1).to(torch.float64)
    if losses is None:
        return torch.nn.functional.pad(counts, (0, len(FIELDS) - len(counts)))
    variation, divergence = (one.to(torch.float64) for one in losses)
    outside = torch.isinf(divergence)
    by_position = variation, torch.where(outside, 0.0, divergence), outside.to(torch.float64)
    sums = torch.stack(by_position).sum(dim=(1, 2))
    return torch.cat([counts, counts[2:3], sums])


def rates(counts: dict[str, float]) -> dict[str, float | None]:
    """Return the receipt's rates of these counts, by its names; None where nothing was counted."""
    decided, steps = counts["positions_decided"], counts["verify_steps"]
    return {
        "draft_acceptance_rate": _ratio(counts["accepted"], counts["draft_tokens"]),
        "deferral_rate": _ratio(counts["deferred"], decided),
        "kept_draft_rate": _ratio(counts["accepted"], decided),
        "tokens_per_verify_step": _ratio(steps + counts["accepted"], steps),
        "loss_tv_mean": _ratio(counts["loss_total_variation"], counts["loss_positions"]),
        "loss_kl_mean": _ratio(
            counts["loss_kl"], counts["loss_positions"] - counts["outside_support"]
        ),
    }


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
