"""Every law with every drafter that it works with, for rows that must hold for all of them."""

from __future__ import annotations

from leeway.acceptance.registry import build_law
from leeway.core.types import Acceptance
from tests.support.law_cases import label

DRAFTERS = ("draft_model", "ngram", "none")
LAWS = [
    Acceptance("rejection"),
    Acceptance("sample_match"),
    Acceptance("block"),
    Acceptance("typical", {"delta": 0.6}),
    Acceptance("typical", {"delta": 0.6, "off_set": "coin"}),
    Acceptance("opt", {"alpha": 0.2}),
    Acceptance("diff", {"alpha": 0.1}),
    Acceptance("tokenv1", {"alpha": 0.2}),
    Acceptance("tokenv2", {"alpha": 0.2}),
    Acceptance("tokenv3", {"alpha": 0.5}),
    Acceptance("relaxed_top_k", {"rank": 2, "ratio": 0.4}),
    Acceptance("threshold", {"floor": 0.3}),
    Acceptance("lenient", {"leniency": 0.5}),
    Acceptance("clip", {"c1": 1.5}),
    Acceptance("tv_budget", {"budget": 0.1}),
    Acceptance("ensemble", {"weight": 0.6}),
]
EXACT = LAWS[:3]


def works(law: Acceptance, drafter: str) -> bool:
    """Return whether a law can judge a drafter's drafts: some read draft rows."""
    return drafter != "ngram" or not build_law(law).info.needs_draft_rows


SERVED = [(law, drafter) for law in LAWS for drafter in DRAFTERS if works(law, drafter)]
SERVED_EXACT = [(law, drafter) for law in EXACT for drafter in DRAFTERS]


def case_label(value: Acceptance | str) -> str:
    """Name one half of a case."""
    return value if isinstance(value, str) else label(value)
