"""The laws on torch: every number is what NumPy gives, and no value is looked at on the way."""

import numpy as np
import pytest
from tests.support.array_kinds import TORCH_KINDS, numbers
from tests.support.law_cases import (
    ALL,
    EXACT,
    LOSSY,
    build,
    edge_pairs,
    label,
    long_rows,
    random_pairs,
)

from leeway.acceptance.base import RowPair
from leeway.acceptance.limits import limit_law
from leeway.acceptance.loss import draft_total_variation, loss
from leeway.acceptance.registry import build_law
from leeway.core.limits import Limits
from leeway.core.types import Acceptance

PAIRS = [*edge_pairs().values(), *random_pairs(12)]
TOLERANCES = {np.float64: 1e-12, np.float32: 1e-5}
METHODS = (
    "accept_probs",
    "recovered_probs",
    "emitted_probs",
    "acceptance_rate",
    "total_variation",
    "loss",
)
RAW = [
    Acceptance("tokenv3", {"alpha": 0.5, "rows": "raw"}),
    Acceptance("typical", {"delta": 0.5, "rows": "raw", "verifier": "block"}),
    Acceptance("opt", {"alpha": 0.3, "rows": "raw"}),
]
pytestmark = pytest.mark.parametrize("kind", TORCH_KINDS, ids=lambda kind: kind.name)


def tiled(pair, dtype, share=None):
    """Return the pair once for each column, as a batch, and the columns."""
    size = len(pair.target_probs)
    p, q = (np.tile(row.astype(dtype), (size, 1)) for row in (pair.target_probs, pair.draft_probs))
    lossy_share = None if share is None else np.full(size, share, dtype=dtype)
    return RowPair(p, q, p[:, ::-1], q[:, ::-1], lossy_share=lossy_share), np.arange(size)


def has_rule(law):
    """Whether tokens are kept by a rule, not just where the coin's probability comes out as 1."""
    return law.verifier == "token" and (
        "off_set" in law.options or law.info.name in {"opt", "diff"}
    )


def assert_close(kind, one, two, tolerance):
    assert str(two.dtype).removeprefix("torch.") == str(one.dtype)
    assert two.device.type == kind.device
    np.testing.assert_allclose(numbers(two), one, rtol=0, atol=tolerance)


def assert_same(kind, law, rows, columns, tolerance):
    theirs, their_columns = kind.rows(rows), kind.array(columns)
    asked = [(getattr(law, name)(rows), getattr(law, name)(theirs)) for name in METHODS]
    asked.append((law.emitted_point(rows, columns), law.emitted_point(theirs, their_columns)))
    asked.append((law.recovered_probs(rows, columns), law.recovered_probs(theirs, their_columns)))
    asked.append((loss(law, rows), loss(law, theirs)))
    asked.append((draft_total_variation(rows), draft_total_variation(theirs)))
    for own, other in asked:
        is_pair = isinstance(own, tuple)
        for one, two in zip(*((own, other) if is_pair else ((own,), (other,))), strict=True):
            assert_close(kind, one, two, tolerance)
    (kept, accept), (their_kept, their_accept) = (
        law.judge(rows, columns),
        law.judge(theirs, their_columns),
    )
    assert_close(kind, accept, their_accept, tolerance)
    is_plain = has_rule(law) | (np.abs(accept - 1) > tolerance)  # elsewhere rounding decides
    assert_close(kind, kept & is_plain, their_kept & kind.array(is_plain), 0)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=["float64", "float32"])
@pytest.mark.parametrize("acceptance", [*ALL, *RAW], ids=label)
def test_every_closed_form_is_the_same(acceptance, dtype, kind):
    law = build_law(acceptance)
    for pair in PAIRS:
        assert_same(kind, law, *tiled(pair, dtype), TOLERANCES[dtype])


@pytest.mark.parametrize("dtype", TOLERANCES, ids=["float64", "float32"])
@pytest.mark.parametrize("acceptance", [*LOSSY, *RAW], ids=label)
def test_the_same_under_limits(acceptance, dtype, kind):
    law = limit_law(build_law(acceptance), Limits(tv_budget=0.1, hard_support=True))
    for pair in PAIRS:
        assert_same(kind, law, *tiled(pair, dtype, share=0.4), TOLERANCES[dtype])


@pytest.mark.parametrize("acceptance", ALL, ids=label)
def test_long_rows_are_the_same(acceptance, kind):
    law, columns = build_law(acceptance), np.array([0, 5, 4000])
    assert_same(kind, law, long_rows(), columns, 1e-12)
    assert_same(kind, law, long_rows(np.float32), columns, 2e-5)


def test_ties_go_to_the_first_column(kind):
    rows = RowPair(np.full((1, 4), 0.25), np.full((1, 4), 0.25))
    law = build("relaxed_top_k", rank=2, ratio=0.5, off_set="argmax")
    assert numbers(law.judge(kind.rows(rows), kind.array([1]))[0]).tolist() == [True]
    assert numbers(law.judge(kind.rows(rows), kind.array([2]))[0]).tolist() == [False]
    assert numbers(build("greedy_match").emitted_probs(kind.rows(rows)))[0].tolist() == [1, 0, 0, 0]


@pytest.mark.parametrize("acceptance", EXACT, ids=label)
def test_no_rows_no_numbers(acceptance, kind):
    empty = kind.rows(RowPair(np.empty((0, 3)), np.empty((0, 3))))
    assert all(value.shape == (0,) for value in loss(build_law(acceptance), empty))
