"""Limits: where in an answer, and by how much in all, a lossy law may act.

They stand beside the law and hold for every lossy one; on a law with a guarantee they have nothing
to act on. None of them makes an answer worse than its law alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from leeway.core.errors import LawError

PhaseName = Literal["all", "reasoning"]

PHASES: tuple[PhaseName, ...] = ("all", "reasoning")
MAX_TOKENS = 1_000_000_000  # more than an answer has; each can spend 1 at most
PHASE_BEGIN = "<think>"
PHASE_END = "</think>"


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one request.

    Attributes:
        tv_budget: most total variation that the whole answer may spend; None sets no limit. The law
            of the answer then differs from the target's by at most so much.
        exact_prefix: so many first tokens of the answer are exact.
        hard_support: no token that the target's row, truncated as asked for, gives nothing.
        phase: `reasoning` is exact outside the span between the two markers, `all` acts anywhere.
        phase_begin, phase_end: the markers, as text or as names of special tokens.
    """

    tv_budget: float | None = None
    exact_prefix: int = 0
    hard_support: bool = False
    phase: PhaseName = "all"
    phase_begin: str = PHASE_BEGIN
    phase_end: str = PHASE_END

    def __post_init__(self) -> None:
        """Check every field.

        Raises:
            LawError: a field is of the wrong type or out of range; `param` names it.
        """
        budget, prefix = self.tv_budget, self.exact_prefix
        if budget is not None and not (_is_number(budget) and 0 <= budget <= MAX_TOKENS):
            _refuse("tv_budget", budget, f"a number from 0 to {MAX_TOKENS}, like 0.1")
        is_whole = isinstance(prefix, int) and not isinstance(prefix, bool)
        if not is_whole or not 0 <= prefix <= MAX_TOKENS:
            _refuse("exact_prefix", prefix, f"a whole number from 0 to {MAX_TOKENS}")
        if not isinstance(self.hard_support, bool):
            _refuse("hard_support", self.hard_support, "true or false")
        if self.phase not in PHASES:
            _refuse("phase", self.phase, " or ".join(PHASES))
        for name in ("phase_begin", "phase_end"):
            marker = getattr(self, name)
            if not isinstance(marker, str) or not marker.strip():
                _refuse(name, marker, f"a text, like {PHASE_BEGIN}")

    def names(self) -> tuple[str, ...]:
        """Return the limits that are set."""
        is_set = {
            "tv_budget": self.tv_budget is not None,
            "exact_prefix": self.exact_prefix > 0,
            "hard_support": self.hard_support,
            "phase": self.phase != "all",
        }
        return tuple(name for name, value in is_set.items() if value)

    @property
    def is_active(self) -> bool:
        """Whether any limit is set."""
        return self.hard_support or self.is_by_position

    @property
    def is_by_position(self) -> bool:
        """Whether a limit depends on where in the answer a position stands."""
        has_phase = self.phase != "all"
        return self.tv_budget is not None or self.exact_prefix > 0 or has_phase


NO_LIMITS = Limits()


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _refuse(name: str, value: object, allowed: str) -> None:
    raise LawError(f"{name} is {value!r}; allowed: {allowed}", param=name)
