"""The lower multiple of the clip law, against bisection."""

import numpy as np
import pytest

from leeway.acceptance.ratio_rules import lower_multiple


def rows_of(num_columns, num_rows=3, seed=0, noise=1.0):
    generator = np.random.default_rng(seed)
    logits = generator.normal(0, 2.5, (2, num_rows, num_columns))
    logits[1] = logits[0] + noise * logits[1]
    probs = np.exp(logits)
    return probs / probs.sum(axis=-1, keepdims=True)


def bisected(p, q, missing):
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if np.maximum(middle * p - q, 0).sum() < missing else (low, middle)
        )
    return high


@pytest.mark.parametrize("num_columns", [2, 5, 60, 5000])
@pytest.mark.parametrize("noise", [0.01, 0.3, 1.0])
@pytest.mark.parametrize("factor", [1.0, 1.02, 1.5, 4.0, 30.0])
def test_lower_multiple_is_the_root(num_columns, noise, factor):
    p, q = rows_of(num_columns, seed=num_columns, noise=noise)
    missing = np.maximum(q - factor * p, 0).sum(axis=-1)
    found = lower_multiple(p, q, missing)
    assert np.all((found >= 0) & (found <= 1))
    reached = np.maximum(found[:, None] * p - q, 0).sum(axis=-1)
    assert np.abs(reached - missing).max() < 1e-14
    for row in np.flatnonzero(missing > 1e-9):
        assert found[row] == pytest.approx(bisected(p[row], q[row], missing[row]), rel=1e-6)
    assert np.all(found[missing == 0] == 0)


def test_every_power_step_may_be_needed():
    p, q = rows_of(20_000, num_rows=1, noise=1.5)
    for missing in (1e-3, 1e-6, 1e-10, 1e-14):
        found = lower_multiple(p, q, np.array([missing]))
        reached = np.maximum(found[0] * p - q, 0).sum()
        assert reached == pytest.approx(missing, rel=1e-9, abs=1e-16)


def test_nothing_to_raise_is_no_division_by_zero():
    p = np.array([[0.5, 0.5], [1.0, 0.0]])
    assert lower_multiple(p, p, np.array([1e-17, 0.0])).tolist() == [1.0, 0.0]


def test_single_rows_and_float32():
    p, q = rows_of(300, num_rows=1)
    missing = np.maximum(q - 1.3 * p, 0).sum(axis=-1)
    wide = lower_multiple(p, q, missing)
    assert lower_multiple(p[0], q[0], missing[0]) == wide[0]
    narrow = lower_multiple(*(value.astype(np.float32) for value in (p, q, missing)))
    assert narrow.dtype == np.float32
    assert narrow == pytest.approx(wide, rel=1e-4)
