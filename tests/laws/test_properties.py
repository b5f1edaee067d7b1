"""Properties that hold for all rows: frontier, support, exact ends, batches, precision, bounds."""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.support.law_cases import ALL, LOSSY, OFF_SETS, build, is_on_frontier, label

from leeway.acceptance.base import RowPair
from leeway.acceptance.loss import draft_total_variation, loss
from leeway.acceptance.registry import build_law

TOLERANCE = 1e-12
LAWS = {label(acceptance): build_law(acceptance) for acceptance in ALL}
any_law = st.sampled_from(sorted(LAWS))
lossy_law = st.sampled_from(sorted(map(label, LOSSY)))
weights = st.one_of(st.just(0.0), st.integers(1, 4).map(float), st.floats(1e-6, 1.0))
METHODS = (
    "accept_probs",
    "recovered_probs",
    "emitted_probs",
    "acceptance_rate",
    "total_variation",
)
# A busy machine is no fault: no deadlines, no complaint about slow data.
fixed = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
check = settings(fixed, max_examples=300)


@st.composite
def row_pairs(draw, num_rows=None, max_vocab_size=6):
    """Rows with zeros, ties, point masses and disjoint supports; [V] or [num_rows, V]."""
    vocab_size = draw(st.integers(1, max_vocab_size))
    row = st.lists(weights, min_size=vocab_size, max_size=vocab_size).filter(any)
    raw = np.array(draw(st.lists(row, min_size=2 * (num_rows or 1), max_size=2 * (num_rows or 1))))
    rows = raw / raw.sum(axis=1, keepdims=True)
    if num_rows is None:
        return RowPair(rows[0], rows[1])
    return RowPair(rows[:num_rows], rows[num_rows:])


def divergence(rows):
    return 0.5 * np.abs(rows.target_probs - rows.draft_probs).sum(axis=-1)


@check
@given(any_law, row_pairs())
def test_closed_forms_agree_with_each_other(name, rows):
    law = LAWS[name]
    emitted, recovered = law.emitted_probs(rows), law.recovered_probs(rows)
    accept, q = law.accept_probs(rows), rows.draft_probs
    assert emitted.min() >= 0
    assert abs(emitted.sum() - 1) < TOLERANCE
    assert recovered.min() >= 0
    assert abs(recovered.sum() - 1) < TOLERANCE
    rejected = float(np.sum(q * (1 - accept)))
    assert np.abs(q * accept + rejected * recovered - emitted).max() < TOLERANCE
    assert abs(law.acceptance_rate(rows) - np.sum(q * accept)) < TOLERANCE
    distance = 0.5 * np.abs(emitted - rows.target_probs).sum()
    assert abs(law.total_variation(rows) - distance) < TOLERANCE


@check
@given(any_law, row_pairs())
def test_acceptance_never_exceeds_what_the_loss_pays_for(name, rows):
    law = LAWS[name]
    slack = 1 - divergence(rows) + law.total_variation(rows) - law.acceptance_rate(rows)
    assert slack > -TOLERANCE
    if is_on_frontier(law):
        assert slack < TOLERANCE


@check
@given(any_law, row_pairs())
def test_support_is_kept_where_promised(name, rows):
    law = LAWS[name]
    assume(not law.info.may_leave_support)
    missing = rows.target_probs == 0
    assert np.all(law.emitted_probs(rows)[missing] == 0)
    assert np.all(law.accept_probs(rows)[missing] == 0)
    assert np.all(law.recovered_probs(rows)[missing] == 0)
    assert math.isfinite(loss(law, rows)[1])


@check
@given(any_law, row_pairs(num_rows=4))
def test_a_batch_is_its_single_rows(name, rows):
    law = LAWS[name]
    for method in METHODS:
        batch = getattr(law, method)(rows)
        for index in range(4):
            single = RowPair(rows.target_probs[index], rows.draft_probs[index])
            assert np.array_equal(batch[index], getattr(law, method)(single))
    nested = RowPair(*(row.reshape(2, 2, -1) for row in (rows.target_probs, rows.draft_probs)))
    columns = rows.draft_probs.argmax(axis=-1)
    for method in METHODS:
        flat = getattr(law, method)(rows)
        assert np.array_equal(getattr(law, method)(nested).reshape(flat.shape), flat)
    kept, accept = law.judge(rows, columns)
    nested_kept, nested_accept = law.judge(nested, columns.reshape(2, 2))
    assert np.array_equal(nested_kept.ravel(), kept)
    assert np.array_equal(nested_accept.ravel(), accept)


@check
@given(any_law, row_pairs())
def test_float32_stays_close_to_float64(name, rows):
    law = LAWS[name]
    small = RowPair(rows.target_probs.astype(np.float32), rows.draft_probs.astype(np.float32))
    wide = RowPair(small.target_probs.astype(np.float64), small.draft_probs.astype(np.float64))
    columns = np.array(int(rows.draft_probs.argmax()))
    same_sets = np.array_equal(law.accept_probs(small) == 1, law.accept_probs(wide) == 1)
    assume(same_sets)  # a token exactly at a threshold may fall on either side
    for method in METHODS:
        narrow = getattr(law, method)(small)
        assert narrow.dtype == np.float32
        if method != "recovered_probs":  # divides by the rejected mass, which may be rounding
            assert np.abs(narrow - getattr(law, method)(wide)).max() < 1e-5
    assert law.accept_prob(small, columns).dtype == np.float32
    assert all(value.dtype == np.float32 for value in loss(law, small))


EXACT_ENDS = [
    *(("typical", {"delta": 1e6, "off_set": off_set}) for off_set in OFF_SETS[:3]),
    *(("tokenv1", {"alpha": -1, "off_set": off_set}) for off_set in OFF_SETS[:3]),
    *(("tokenv2", {"alpha": -1, "off_set": off_set}) for off_set in OFF_SETS[:3]),
    ("tokenv2", {"alpha": -1e-9}),
    *(("threshold", {"floor": 1.0, "off_set": off_set}) for off_set in OFF_SETS[:3]),
    ("opt", {"alpha": "-inf"}),
    ("diff", {"alpha": -1}),
    ("lenient", {"leniency": 1}),
    ("clip", {"c1": 1}),
    ("tv_budget", {"budget": 0}),
    ("ensemble", {"weight": 1}),
    ("sglang", {}),
]


@pytest.mark.parametrize("verifier", ["token", "block"])
@pytest.mark.parametrize(("name", "options"), EXACT_ENDS, ids=str)
def test_a_knob_at_its_exact_end_gives_the_target_row(name, options, verifier):
    law = build(name, **options, verifier=verifier)

    @settings(fixed, max_examples=40)
    @given(row_pairs())
    def holds(rows):
        assert np.abs(law.emitted_probs(rows) - rows.target_probs).max() < TOLERANCE
        assert law.total_variation(rows) < TOLERANCE

    holds()


@check
@given(row_pairs(), st.sampled_from([0.2, 0.5, 0.8]))
def test_the_coin_dominates_algorithm_6_which_dominates_the_redraw(rows, alpha):
    laws = {off_set: build("tokenv3", alpha=alpha, off_set=off_set) for off_set in OFF_SETS}
    rate = {name: law.acceptance_rate(rows) for name, law in laws.items()}
    cost = {name: law.total_variation(rows) for name, law in laws.items()}
    assert rate["coin"] >= rate["pi"] - TOLERANCE
    assert rate["pi"] >= rate["redraw"] - TOLERANCE
    assert cost["coin"] <= cost["pi"] + TOLERANCE
    emitted = {name: law.emitted_probs(rows) for name, law in laws.items()}
    assert np.abs(emitted["pi"] - emitted["redraw"]).max() < TOLERANCE
    assert abs(cost["pi"] - cost["redraw"]) < TOLERANCE


@check
@given(row_pairs(), st.floats(1.0, 20.0))
def test_bounds_of_clip_and_lenient(rows, factor):
    limit = min(float(divergence(rows)), 1 - 1 / factor) + TOLERANCE
    for law in (build("clip", c1=factor), build("lenient", leniency=1 / factor)):
        emitted = law.emitted_probs(rows)
        assert law.total_variation(rows) <= limit
        assert np.all(emitted <= factor * rows.target_probs * (1 + 1e-12) + TOLERANCE)
        assert loss(law, rows)[1] <= math.log(factor) + TOLERANCE


@check
@given(row_pairs(), st.floats(0.0, 1.0))
def test_a_budget_is_spent_and_never_exceeded(rows, budget):
    law = build("tv_budget", budget=budget)
    distance = 0.5 * np.abs(law.emitted_probs(rows) - rows.target_probs).sum()
    assert abs(distance - min(budget, float(divergence(rows)))) < TOLERANCE


@check
@given(row_pairs())
def test_the_clip_has_the_least_kl_at_its_acceptance(rows):
    """Against the lenient law of the same acceptance rate (found by bisection on l)."""
    clip = build("clip", c1=1.5)
    wanted, low, high = clip.acceptance_rate(rows), 1e-6, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        is_looser = build("lenient", leniency=middle).acceptance_rate(rows) > wanted
        low, high = (middle, high) if is_looser else (low, middle)
    lenient = build("lenient", leniency=low)
    assume(abs(lenient.acceptance_rate(rows) - wanted) < 1e-9)
    assert loss(clip, rows)[1] <= loss(lenient, rows)[1] + 1e-7


@check
@given(lossy_law, row_pairs())
def test_loss_is_the_divergence_of_the_emitted_row(name, rows):
    law = LAWS[name]
    tv, kl = loss(law, rows)
    p, emitted = rows.target_probs, law.emitted_probs(rows)
    inside = emitted > 0
    if np.any(p[inside] == 0):
        assert kl == math.inf
    else:
        assert abs(kl - np.sum(emitted[inside] * np.log(emitted[inside] / p[inside]))) < 1e-9
    assert abs(tv - law.total_variation(rows)) < TOLERANCE
    assert abs(draft_total_variation(rows) - divergence(rows)) < TOLERANCE


@check
@given(row_pairs())
def test_point_mass_drafts_make_off_sets_emit_one_row(rows):
    """With q = 1_d: redraw, pi and coin emit alike; redraw accepts less; row rules keep all."""
    draft = np.eye(len(rows.target_probs))[int(rows.draft_probs.argmax())]
    rows = RowPair(rows.target_probs, draft)
    redraw, pi, coin = (build("tokenv3", alpha=0.3, off_set=off_set) for off_set in OFF_SETS[:3])
    assert np.abs(pi.emitted_probs(rows) - coin.emitted_probs(rows)).max() < TOLERANCE
    assert np.abs(redraw.emitted_probs(rows) - coin.emitted_probs(rows)).max() < TOLERANCE
    assert abs(pi.acceptance_rate(rows) - coin.acceptance_rate(rows)) < TOLERANCE
    for law in (build("opt", alpha=0), build("diff", alpha=0), build("tokenv1", alpha=0)):
        assert law.acceptance_rate(rows) == 1


def test_point_mass_drafts_do_not_make_the_three_cascade_sets_one():
    rows = RowPair(np.array([0.9, 0.1]), np.array([0.0, 1.0]))
    rates = [build(f"tokenv{n}", alpha=0.3).acceptance_rate(rows) for n in (1, 2, 3)]
    assert rates[0] == 1
    assert np.abs(np.array(rates[1:]) - 0.1).max() < TOLERANCE
