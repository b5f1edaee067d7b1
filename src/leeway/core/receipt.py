"""The receipt: what a request (or a process) traded and gained, in counts and sums.

Same numbers, same names, in the response, the log line, /metrics, /health and reports. Three rates,
never called just "accept rate":

- `draft_acceptance_rate` = accepted / drafted tokens;
- `deferral_rate` = positions at which the rule deferred to the target / positions decided
  (counted before the coin);
- `kept_draft_rate` = (kept without a coin + deferred whose coin accepted) / positions decided.

A position is *decided* when a verifier judged it: all accepted ones and the first rejected one of a
block. A verify step is one judged block, drafted or not; the step that ends a prefill judges an
empty block. Identities (`check`): accepted + resampled = decided; resampled <= deferred <= decided;
output tokens = verify steps + accepted - discarded. `cached_tokens` of the prompt were in the cache
already; `preemptions` counts how often the request gave its cache to older ones and read its text
again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from leeway.core.limits import NO_LIMITS, Limits

LawOption = float | int | str
Demotion = Literal["self_check", "drafter_failed"]
Number = TypeVar("Number", int, float)


@dataclass(slots=True)
class Tally:
    """Counts and sums that grow with each verify step; totals of a process add the same fields."""

    num_verify_steps: int = 0
    num_spec_steps: int = 0
    num_draft_tokens: int = 0
    num_accepted_tokens: int = 0
    num_recovered_tokens: int = 0
    num_bonus_tokens: int = 0
    num_discarded_tokens: int = 0
    num_output_tokens: int = 0
    num_prompt_tokens: int = 0
    num_cached_tokens: int = 0
    num_preemptions: int = 0
    num_decided: int = 0
    num_deferred: int = 0
    draft_tv_sum: float = 0.0
    loss_tv_sum: float = 0.0
    loss_tv_max: float = 0.0
    loss_kl_sum: float = 0.0
    loss_kl_max: float = 0.0
    num_outside_support: int = 0
    target_entropy_sum: float = 0.0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    accepted_by_depth: list[int] = field(default_factory=list)
    drafted_by_depth: list[int] = field(default_factory=list)
    steps_by_draft_and_accepted: dict[tuple[int, int], int] = field(default_factory=dict)
    decided_by_depth: list[int] = field(default_factory=list)
    draft_tv_by_depth: list[float] = field(default_factory=list)
    tv_spent_sum: float = 0.0
    tv_budget_sum: float = 0.0
    requests_by_limit: dict[str, int] = field(default_factory=dict)

    def add_step(self, num_drafted: int, num_accepted: int) -> None:
        """Count one verify step of `num_drafted` draft tokens, `num_accepted` of them accepted."""
        self.num_verify_steps += 1
        self.num_spec_steps += num_drafted > 0
        self.num_draft_tokens += num_drafted
        self.num_accepted_tokens += num_accepted
        is_rejected = num_accepted < num_drafted
        self.num_recovered_tokens += is_rejected
        self.num_bonus_tokens += not is_rejected
        self.num_decided += num_accepted + is_rejected
        missing = num_drafted - len(self.drafted_by_depth)
        self.drafted_by_depth.extend([0] * missing)
        self.accepted_by_depth.extend([0] * missing)
        for depth in range(num_drafted):
            self.drafted_by_depth[depth] += 1
            self.accepted_by_depth[depth] += depth < num_accepted
        key = (num_drafted, num_accepted)
        self.steps_by_draft_and_accepted[key] = self.steps_by_draft_and_accepted.get(key, 0) + 1

    def add_draft_tv(self, distances: Sequence[float]) -> None:
        """Count TV(target row, draft row) at the positions that one verify step decided."""
        self.draft_tv_sum += sum(distances)
        self.decided_by_depth = _add_lists(self.decided_by_depth, [1] * len(distances))
        self.draft_tv_by_depth = _add_lists(self.draft_tv_by_depth, list(distances))

    def add_limits(self, limits: Limits, spent: float) -> None:
        """Count an answer of a lossy law under limits, and what it spent of total variation."""
        self.tv_spent_sum += spent
        self.tv_budget_sum += limits.tv_budget or 0.0
        for name in limits.names():
            self.requests_by_limit[name] = self.requests_by_limit.get(name, 0) + 1

    def add(self, other: Tally) -> None:
        """Add another tally's counts to this one (totals of a process)."""
        for name in _SUMMED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.loss_tv_max = max(self.loss_tv_max, other.loss_tv_max)
        self.loss_kl_max = max(self.loss_kl_max, other.loss_kl_max)
        self.accepted_by_depth = _add_lists(self.accepted_by_depth, other.accepted_by_depth)
        self.drafted_by_depth = _add_lists(self.drafted_by_depth, other.drafted_by_depth)
        self.decided_by_depth = _add_lists(self.decided_by_depth, other.decided_by_depth)
        self.draft_tv_by_depth = _add_lists(self.draft_tv_by_depth, other.draft_tv_by_depth)
        for key, count in other.steps_by_draft_and_accepted.items():
            old = self.steps_by_draft_and_accepted.get(key, 0)
            self.steps_by_draft_and_accepted[key] = old + count
        for name, count in other.requests_by_limit.items():
            self.requests_by_limit[name] = self.requests_by_limit.get(name, 0) + count

    def check(self) -> None:
        """Assert the identities that every receipt must satisfy."""
        assert self.num_accepted_tokens + self.num_recovered_tokens == self.num_decided
        assert self.num_recovered_tokens <= self.num_deferred <= self.num_decided
        delivered = self.num_verify_steps + self.num_accepted_tokens - self.num_discarded_tokens
        assert self.num_output_tokens == delivered

    def rates(self) -> dict[str, float | None]:
        """Return the rates and means; None where nothing was counted."""
        decided = self.num_decided
        return {
            "draft_acceptance_rate": _ratio(self.num_accepted_tokens, self.num_draft_tokens),
            "deferral_rate": _ratio(self.num_deferred, decided),
            "kept_draft_rate": _ratio(self.num_accepted_tokens, decided),
            "tokens_per_verify_step": _ratio(self.num_output_tokens, self.num_verify_steps),
            "mean_draft_tv": _ratio(self.draft_tv_sum, decided),
            "mean_target_entropy": _ratio(self.target_entropy_sum, decided),
        }

    def loss(self) -> dict[str, float | None]:
        """Return the loss meter: divergence of emitted from target rows at decided positions.

        KL is infinite where the emitted row holds a token that the target cannot give; those
        positions are counted in `outside_support` and left out of the KL figures. A largest value
        of 0 beside a sum above it is one that a server did not tell.
        """
        num_inside = self.num_decided - self.num_outside_support
        tells_tv = self.num_decided and (self.loss_tv_max or not self.loss_tv_sum)
        tells_kl = num_inside and (self.loss_kl_max or not self.loss_kl_sum)
        return {
            "total_variation_mean": _ratio(self.loss_tv_sum, self.num_decided),
            "total_variation_max": self.loss_tv_max if tells_tv else None,
            "kl_mean": _ratio(self.loss_kl_sum, num_inside),
            "kl_max": self.loss_kl_max if tells_kl else None,
            "outside_support": self.num_outside_support,
        }

    def counts(self) -> dict[str, Any]:
        """Return the counts by name."""
        return {
            "verify_steps": self.num_verify_steps,
            "output_tokens": self.num_output_tokens,
            "drafted": self.num_draft_tokens,
            "positions_decided": self.num_decided,
            "accepted": self.num_accepted_tokens,
            "deferred": self.num_deferred,
            "resampled": self.num_recovered_tokens,
            "bonus": self.num_bonus_tokens,
            "discarded": self.num_discarded_tokens,
            "cached_tokens": self.num_cached_tokens,
            "preemptions": self.num_preemptions,
            "accepted_by_depth": list(self.accepted_by_depth),
            "drafted_by_depth": list(self.drafted_by_depth),
        }


@dataclass(frozen=True, slots=True)
class Receipt:
    """One request's receipt: what ran (not what was asked) and its tally.

    `law`, `options`, `guarantee` and `verifier` are read from the law object that judged.
    `draft_temperature` is the multiple of the request's temperature at which drafts were drawn.
    `demotion` says why less was drafted than asked for: the self-check at load declined blocks of
    drafts, or the drafter failed on this request. `requested_law` is named where another one was
    asked for. `per_step` holds (drafted, accepted) of each verify step in order. `tv_spent` is what
    the delivered positions spent of total variation under `limits`; None where the law had nothing
    to spend.
    """

    law: str
    options: dict[str, LawOption]
    guarantee: str
    verifier: str
    drafter: str
    num_speculative_tokens: int
    seed: int
    temperature: float
    tally: Tally
    per_step: tuple[tuple[int, int], ...]
    requested_law: str | None = None
    draft_length: str = "fixed"
    draft_temperature: float = 1.0
    demotion: Demotion | None = None
    limits: Limits = NO_LIMITS
    tv_spent: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the whole receipt with the project's own names."""
        return {
            "law": self.law,
            "requested_law": self.requested_law or self.law,
            "options": dict(self.options),
            "guarantee": self.guarantee,
            "verifier": self.verifier,
            "drafter": self.drafter,
            "draft_length": self.draft_length,
            "draft_temperature": self.draft_temperature,
            "demotion": self.demotion,
            "seed": self.seed,
            "temperature": self.temperature,
            **self.tally.counts(),
            **self.tally.rates(),
            "loss": self.tally.loss(),
            "limits": self._limits(),
            "prefill_s": self.tally.prefill_s,
            "decode_s": self.tally.decode_s,
        }

    def _limits(self) -> dict[str, Any] | None:
        """Return the limits in force, what was spent under them and the bound that they give.

        `tv_bound` bounds the total variation between the answer's law and the target's: 0 under an
        exact law, None where no budget is set. Greedy decoding above temperature 0 has neither.
        """
        if not self.limits.is_active:
            return None
        budget, spent, bound = self.limits.tv_budget, self.tv_spent, None
        if spent is not None:
            bound = None if budget is None else min(1.0, budget)
        elif self.guarantee != "exact_greedy" or self.temperature == 0:
            spent = bound = 0.0
        return {
            "tv_budget": budget,
            "tv_spent": spent,
            "tv_bound": bound,
            "exact_prefix": self.limits.exact_prefix,
            "hard_support": self.limits.hard_support,
            "phase": self.limits.phase,
        }

    def speculative_metrics(self, *, detailed: bool = False) -> dict[str, Any]:
        """Return `metrics.speculative_decoding` of a response.

        The first eight keys are the contract that vLLM documents for acceptance metrics; the
        receipt's own keys stand beside them. As there, a mean of 1 and a rate of 0 stand for a
        request that drafted nothing. `detailed` adds `per_step_accepted` and `per_step_drafted`
        (steps that drafted).
        """
        tally = self.tally
        size = self.num_speculative_tokens + 1
        histogram = [0] * size
        by_length: dict[str, list[int]] = {}
        for (drafted, accepted), count in sorted(tally.steps_by_draft_and_accepted.items()):
            if drafted == 0:
                continue
            histogram[accepted] += count
            row = by_length.setdefault(str(drafted), [0] * (drafted + 1))
            row[accepted] += count
        mean_accepted = _ratio(tally.num_accepted_tokens, tally.num_spec_steps)
        acceptance_rate = _ratio(tally.num_accepted_tokens, tally.num_draft_tokens)
        metrics: dict[str, Any] = {
            "mean_acceptance_length": 1 + (mean_accepted or 0.0),
            "draft_acceptance_rate": acceptance_rate or 0.0,
            "acceptance_histogram": histogram,
            "acceptance_histogram_by_draft_length": by_length,
            "num_spec_steps": tally.num_spec_steps,
            "num_accepted_draft_tokens": tally.num_accepted_tokens,
            "num_draft_tokens": tally.num_draft_tokens,
            "num_spec_tokens": self.num_speculative_tokens,
        }
        if detailed:
            spec_steps = [step for step in self.per_step if step[0] > 0]
            metrics["per_step_accepted"] = [accepted for _, accepted in spec_steps]
            metrics["per_step_drafted"] = [drafted for drafted, _ in spec_steps]
        own = self.to_dict()
        return metrics | {key: value for key, value in own.items() if key not in metrics}


_SUMMED = (
    "num_verify_steps",
    "num_spec_steps",
    "num_draft_tokens",
    "num_accepted_tokens",
    "num_recovered_tokens",
    "num_bonus_tokens",
    "num_discarded_tokens",
    "num_output_tokens",
    "num_prompt_tokens",
    "num_cached_tokens",
    "num_preemptions",
    "num_decided",
    "num_deferred",
    "num_outside_support",
    "draft_tv_sum",
    "loss_tv_sum",
    "loss_kl_sum",
    "target_entropy_sum",
    "tv_spent_sum",
    "tv_budget_sum",
    "prefill_s",
    "decode_s",
)


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _add_lists(a: list[Number], b: list[Number]) -> list[Number]:
    size = max(len(a), len(b))
    longer = a + [0] * (size - len(a))
    return [x + y for x, y in zip(longer, b + [0] * (size - len(b)), strict=True)]
