"""One position, enumerated: procedure against closed form, for every law, off-set and verifier."""

import numpy as np
import pytest
from tests.support.enumerate_coins import enumerate_outcomes
from tests.support.law_cases import (
    ALL,
    EXACT,
    LOSSY,
    edge_pairs,
    is_on_frontier,
    label,
    random_pairs,
)

from leeway.acceptance.base import RowPair
from leeway.acceptance.loss import loss
from leeway.acceptance.registry import build_law, law_infos
from leeway.acceptance.verify import verify
from leeway.core.types import Acceptance

PAIRS = [*edge_pairs().values(), *random_pairs(12)]
TOLERANCE = 1e-12


def verified(law, rows):
    """Enumerate `verify` over one drafted token; return (emitted row, acceptance rate)."""
    emitted, acceptance = np.zeros_like(rows.target_probs), 0.0
    raw_target, raw_draft = rows.threshold_target_probs, rows.threshold_draft_probs
    batch = RowPair(
        rows.target_probs[None],
        rows.draft_probs[None],
        None if raw_target is None else raw_target[None],
        None if raw_draft is None else raw_draft[None],
    )
    bonus = np.eye(len(rows.target_probs))[0]
    for column, probability in enumerate(rows.draft_probs):
        if probability == 0:
            continue
        drafted = np.array([column])
        outcomes = enumerate_outcomes(
            lambda coins, drafted=drafted: verify(law, batch, bonus, drafted, coins, 5)
        )
        for verdict, weight in outcomes.items():
            first = column if verdict.is_bonus else verdict.next_column
            emitted[first] += probability * weight
            acceptance += probability * weight * verdict.num_accepted
    return emitted, acceptance


def assert_closed_forms_hold(law, rows):
    emitted, rate = verified(law, rows)
    closed = law.emitted_probs(rows)
    assert np.abs(emitted - closed).max() < TOLERANCE
    assert abs(rate - law.acceptance_rate(rows)) < TOLERANCE
    divergence = 0.5 * np.abs(closed - rows.target_probs).sum()
    assert abs(divergence - law.total_variation(rows)) < TOLERANCE
    assert abs(divergence - loss(law, rows)[0]) < TOLERANCE


@pytest.mark.parametrize("acceptance", ALL, ids=label)
def test_emitted_row_of_the_verifier_is_the_closed_form(acceptance):
    law = build_law(acceptance)
    for rows in PAIRS:
        assert_closed_forms_hold(law, rows)


READING_RAW_ROWS = [
    Acceptance(one.law, {**one.options, "rows": "raw"})
    for one in LOSSY
    if one.law in {info.name for info in law_infos() if "rows" in {k.name for k in info.knobs}}
]


@pytest.mark.parametrize("acceptance", READING_RAW_ROWS, ids=label)
def test_thresholds_on_raw_rows(acceptance):
    """Raw rows that differ from the sampled ones: another temperature, and greedy sampling."""
    law = build_law(acceptance)
    for raw in random_pairs(8, seed=1):
        sharp = raw.target_probs**3 / np.sum(raw.target_probs**3)
        greedy = [np.eye(len(row))[row.argmax()] for row in (raw.target_probs, raw.draft_probs)]
        for target, draft in ((sharp, raw.draft_probs), (sharp, greedy[1]), tuple(greedy)):
            assert_closed_forms_hold(law, RowPair(target, draft, raw.target_probs, raw.draft_probs))


@pytest.mark.parametrize("acceptance", ALL, ids=label)
def test_accept_probs_and_recovered_probs_emit_the_closed_form(acceptance):
    law = build_law(acceptance)
    for rows in PAIRS:
        p, q = rows.target_probs, rows.draft_probs
        accept, recovered = law.accept_probs(rows), law.recovered_probs(rows)
        assert np.all((accept >= 0) & (accept <= 1))
        assert np.all(accept[(p == 0) & (q == 0)] == 0)
        assert np.all(recovered >= 0)
        assert abs(recovered.sum() - 1) < TOLERANCE
        rejected = float(np.sum(q * (1 - accept)))
        assert np.abs(q * accept + rejected * recovered - law.emitted_probs(rows)).max() < TOLERANCE


@pytest.mark.parametrize("acceptance", ALL, ids=label)
def test_one_token_at_a_time_agrees_with_all_tokens(acceptance):
    law = build_law(acceptance)
    for rows in PAIRS:
        columns = np.flatnonzero(rows.draft_probs > 0)
        batch = RowPair(
            *(np.tile(row, (len(columns), 1)) for row in (rows.target_probs, rows.draft_probs))
        )
        kept, accept = law.judge(batch, columns)
        assert np.abs(accept - law.accept_probs(rows)[columns]).max() < TOLERANCE
        assert np.array_equal(law.is_kept(batch, columns), kept)
        assert np.array_equal(law.accept_prob(batch, columns), accept)
        assert np.all(accept[kept] == 1)


@pytest.mark.parametrize("acceptance", ALL, ids=label)
def test_frontier(acceptance):
    law = build_law(acceptance)
    for rows in PAIRS:
        divergence = 0.5 * np.abs(rows.target_probs - rows.draft_probs).sum()
        slack = 1 - divergence + law.total_variation(rows) - law.acceptance_rate(rows)
        assert slack > -TOLERANCE
        if is_on_frontier(law) and law.info.name != "sample_match":
            assert slack < TOLERANCE


@pytest.mark.parametrize("acceptance", EXACT[:3], ids=label)
def test_exact_laws_emit_the_target_row(acceptance):
    law = build_law(acceptance)
    for rows in PAIRS:
        emitted, _ = verified(law, rows)
        assert np.abs(emitted - rows.target_probs).max() < TOLERANCE
        assert law.total_variation(rows) == 0


def test_rejected_tokens_residual_of_sample_match():
    law = build_law(EXACT[2])
    for rows in PAIRS:
        p, q = rows.target_probs, rows.draft_probs
        average, rejected = np.zeros_like(p), 1 - p @ q
        for column in np.flatnonzero(p < 1):
            row = law.recovered_probs(rows, np.array(column))
            assert row[column] == 0
            average += q[column] * (1 - p[column]) * row
        if rejected > 1e-6:
            assert np.abs(average / rejected - law.recovered_probs(rows)).max() < 1e-9
