"""Leeway: speculative decoding with the acceptance law as a dial.

Exact by default; lossy on request; a receipt in every answer. This module is the whole public
Python interface:

    LLM              a model ready to decode
    SamplingParams   how tokens are drawn
    Acceptance       which law judges drafted tokens
    Limits           where and how far a lossy law may go
    Grammar          the form that an answer must have
    laws()           what laws there are
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leeway.core.limits import Limits
from leeway.core.types import Acceptance, Grammar, SamplingParams

if TYPE_CHECKING:
    from leeway.acceptance.base import LawInfo
    from leeway.llm import LLM, Completion

__all__ = ["LLM", "Acceptance", "Completion", "Grammar", "Limits", "SamplingParams", "laws"]


def laws() -> tuple[LawInfo, ...]:
    """Return what each law is: guarantee, knobs, source."""
    from leeway.acceptance.registry import law_infos  # noqa: PLC0415

    return law_infos()


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """Load the engine only when it is asked for, so that `leeway laws` stays instant."""
    if name in ("LLM", "Completion"):
        from leeway import llm  # noqa: PLC0415

        return getattr(llm, name)
    raise AttributeError(f"module 'leeway' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List what is public, loaded or not."""
    return sorted(__all__)
