"""Every law with every drafter that it works with, for rows that must hold for all of them."""

from __future__ import annotations

import numpy as np

from leeway.acceptance.registry import build_law
from leeway.backends.tabular import Table, TabularBackend, random_table
from leeway.backends.tabular_head import TabularHead
from leeway.core.types import Acceptance
from leeway.drafters.base import Drafter
from leeway.drafters.mtp import MTPDrafter
from leeway.drafters.mtp_ngram import MTPNGramDrafter
from leeway.engine.engine import Engine
from tests.support.law_cases import label
from tests.support.tabular_engine import make_engine

DRAFTERS = ("draft_model", "mtp", "mtp_ngram", "ngram", "none")
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
WITH_HEAD = ("mtp", "mtp_ngram")
# The head also drafts tokens that a sparse target cannot give; lossy laws may keep those.
SERVED_INSIDE = [
    (law, drafter) for law, drafter in SERVED if drafter not in WITH_HEAD or law in EXACT
]
SERVED_EXACT = [(law, drafter) for law in EXACT for drafter in DRAFTERS]


def serve(
    law: Acceptance, drafter: str, table: Table, draft_table: Table, **options: object
) -> Engine:
    """Return an engine that drafts from a table, or from a head that lacks the third token."""
    settings = {"context_len": 80, "capacity_tokens": 800, **options}
    has_head = drafter in WITH_HEAD
    engine = make_engine(
        table,
        acceptance=None if has_head else law,
        drafter="none" if has_head else drafter,
        draft_table=draft_table,
        **settings,
    )
    if not has_head:
        return engine
    backend = engine.parts.backend
    assert isinstance(backend, TabularBackend)
    ids = np.array([token for token in range(backend.vocab_size) if token != 2])
    tables = [random_table(backend.vocab_size, 2, 60 + at, num_columns=len(ids)) for at in (0, 1)]
    sizes = {"context_len": backend.context_len, "capacity_tokens": backend.capacity_tokens}
    head = TabularHead(backend, tables, 2, ids, **sizes)
    if drafter == "mtp":
        made: Drafter = MTPDrafter(head, backend.vocab_size)
    else:
        made = MTPNGramDrafter(head, backend.vocab_size, ngram_cost=0.03, head_cost=0.11)
    return make_engine(table, acceptance=law, drafter=made, **settings)


def case_label(value: Acceptance | str) -> str:
    """Name one half of a case."""
    return value if isinstance(value, str) else label(value)
