"""Engines under load: every drafter over tables, answers to compare, books to be balanced.

The draft head refuses every hidden state that is not due, what it is shown is spoilt behind every
call, and the target's tokens lie in blocks: a block shared, taken away or read wrongly shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from leeway.backends.tabular import TabularBackend, random_table
from leeway.backends.tabular_head import TabularHead
from leeway.core.types import Acceptance, FinishReason, OutputDelta, Request
from leeway.drafters.base import Drafter, Observation
from leeway.drafters.draft_model import ModelDrafter
from leeway.drafters.mtp import MTPDrafter
from leeway.drafters.mtp_ngram import MTPNGramDrafter
from leeway.engine.engine import Engine
from tests.support.tabular_engine import make_engine, run_all, text, token_ids

VOCAB = 4
TABLE = random_table(VOCAB, 2, seed=1, concentration=0.5)
DRAFT_TABLE = random_table(VOCAB, 2, seed=2)
DRAFTERS = ("none", "ngram", "draft_model", "mtp", "mtp_ngram")
LAWS = (
    Acceptance("rejection"),
    Acceptance("sample_match"),
    Acceptance("block"),
    Acceptance("greedy_match"),
    Acceptance("typical", {"delta": 0.4}),
    Acceptance("tokenv3", {"alpha": 0.5}),
    Acceptance("tv_budget", {"budget": 0.2}),
)


class _Spoiling:
    """Spoils what the drafter was shown, as a device's buffers may be."""

    def observe(self, seen: Sequence[Observation]) -> None:
        copies = [replace(one, hidden=one.hidden.copy()) for one in seen]
        super().observe(copies)  # type: ignore[misc]
        for one in copies:
            one.hidden.fill(np.nan)


class FleetingHead(_Spoiling, MTPDrafter):
    """A draft head whose observations do not last."""


class FleetingHeadAndNGrams(_Spoiling, MTPNGramDrafter):
    """A draft head and n-grams, the observations of which do not last."""


@dataclass(frozen=True)
class Answer:
    """All of an answer that may not depend on company, room or what was cached."""

    token_ids: tuple[int, ...]
    text: str
    finish_reason: FinishReason | None
    per_step: tuple[tuple[int, int], ...]
    law: str


def engine_of(
    drafter: str = "none",
    acceptance: Acceptance | None = None,
    *,
    capacity_tokens: int = 1024,
    context_len: int = 64,
    head_context_len: int | None = None,
    **options: Any,
) -> Engine:
    """Return an engine over `TABLE`; with a head or draft model whose cache is as large."""
    sizes = {"context_len": context_len, "capacity_tokens": capacity_tokens}
    made: Drafter | str = drafter
    if drafter == "draft_model":
        made = ModelDrafter(TabularBackend(DRAFT_TABLE, 2, **sizes), VOCAB)
    elif drafter in {"mtp", "mtp_ngram"}:
        tables = [random_table(VOCAB, 2, seed=50 + depth, num_columns=3) for depth in range(3)]
        head = TabularHead(
            TabularBackend(TABLE, 2),
            tables,
            order=2,
            draft_token_ids=np.array((0, 2, 3)),
            capacity_tokens=capacity_tokens,
            context_len=head_context_len or context_len,
        )
        if drafter == "mtp":
            made = FleetingHead(head, VOCAB)
        else:
            made = FleetingHeadAndNGrams(head, VOCAB, ngram_cost=0.03, head_cost=0.11)
    return make_engine(TABLE, order=2, drafter=made, acceptance=acceptance, **sizes, **options)


def answer_of(deltas: Sequence[OutputDelta]) -> Answer:
    """Return what the deltas of one request come to."""
    receipt = deltas[-1].receipt
    assert receipt is not None
    receipt.tally.check()
    return Answer(
        token_ids(list(deltas)),
        text(list(deltas)),
        deltas[-1].finish_reason,
        receipt.per_step,
        receipt.law,
    )


def serve(engine: Engine, *requests: Request) -> dict[str, Answer]:
    """Run the requests together; the books must balance when all are done."""
    answers = {name: answer_of(deltas) for name, deltas in run_all(engine, *requests).items()}
    check_books(engine)
    return answers


def alone(drafter: str, request: Request, **options: Any) -> Answer:
    """Return the answer of a request alone on an engine of its own, with nothing cached."""
    engine = engine_of(drafter, prefix_cache="off", **options)
    return serve(engine, request)[request.request_id]


def caches_of(engine: Engine) -> list[Any]:
    """Return the target's backend, and the draft model or head."""
    drafter = vars(engine.parts.drafter)
    extra = [drafter[name] for name in ("head", "_backend") if name in drafter]
    return [engine.parts.backend, *extra]


def check_books(engine: Engine) -> None:
    """Assert that an idle engine has lost no block, and that nothing is held for nobody."""
    assert not engine.has_work
    status = engine.status()
    assert status["num_requests_running"] == status["num_requests_waiting"] == 0
    for cache in caches_of(engine):
        cache.check_integrity()
        assert cache.num_open() == 0
        assert cache.pool.num_free_blocks == cache.pool.num_blocks


def check_contents(engine: Engine, *texts: Sequence[int]) -> int:
    """Assert that the target's idle blocks hold these texts' beginnings and nothing else.

    Returns:
        The number of idle blocks.
    """
    backend = engine.parts.backend
    assert isinstance(backend, TabularBackend)
    pool, size = backend.pool, backend.block_len
    found: set[int] = set()
    for one in texts:
        for index, block in enumerate(pool._prefixes.find(one)):
            assert backend._slots[block].tolist() == list(one[index * size : (index + 1) * size])
            found.add(block)
    assert found == set(pool._prefixes.idle_blocks())
    return len(found)
