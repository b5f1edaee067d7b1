"""Warp against a slow, obvious reference; edge cases; compact and dense agree."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leeway.core.errors import BackendError
from leeway.core.types import Rows, SamplingParams
from leeway.sampling.warp import softmax, warp


def slow_row(logits, params):
    """The documented order, one token at a time, in float64."""
    scaled = np.asarray(logits, dtype=np.float64) / params.temperature
    order = sorted(range(len(scaled)), key=lambda i: (-scaled[i], i))
    probs = np.exp(scaled - scaled.max())
    kept = order[: params.top_k] if params.top_k else order
    total = sum(probs[i] for i in kept)
    if params.top_p < 1:
        mass, cut = 0.0, []
        for i in kept:
            if mass >= params.top_p * total:
                break
            cut.append(i)
            mass += probs[i]
        kept = cut
    kept = [i for i in kept if probs[i] >= params.min_p * probs[order[0]]]
    row = np.zeros(len(scaled))
    row[kept] = probs[kept]
    return row / row.sum()


def full(rows: Rows, vocab_size: int):
    if rows.token_ids is None:
        return rows.probs
    dense = np.zeros((len(rows.probs), vocab_size))
    dense[:, rows.token_ids] = rows.probs
    return dense


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    vocab_size=st.sampled_from([2, 5, 64, 700, 3000]),
    temperature=st.sampled_from([0.1, 0.7, 1.0, 2.5]),
    top_k=st.sampled_from([0, 1, 3, 20, 600]),
    top_p=st.sampled_from([1.0, 0.95, 0.5, 0.01]),
    min_p=st.sampled_from([0.0, 0.05, 0.9, 1.0]),
)
def test_rows_equal_the_slow_reference(seed, vocab_size, temperature, top_k, top_p, min_p):
    logits = np.random.default_rng(seed).normal(size=(3, vocab_size)) * 4
    params = SamplingParams(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    rows = full(warp(logits, params), vocab_size)
    for row, line in zip(rows, logits, strict=True):
        assert np.abs(row - slow_row(line, params)).max() < 1e-12


def test_float32_logits_keep_the_same_tokens():
    logits = np.random.default_rng(3).normal(size=(4, 5000)).astype(np.float32) * 3
    params = SamplingParams(temperature=0.8, top_k=20, top_p=0.9)
    rows = full(warp(logits, params), 5000)
    for row, line in zip(rows, logits, strict=True):
        expected = slow_row(line, params)
        assert np.array_equal(row > 0, expected > 0)
        assert np.abs(row - expected).max() < 1e-6


def test_temperature_zero_is_one_hot_at_the_lowest_of_tied_tokens():
    logits = np.array([[0.0, 2.0, 2.0, 1.0], [5.0, 0.0, 0.0, 0.0]])
    rows = full(warp(logits, SamplingParams(temperature=0)), 4)
    assert rows.tolist() == [[0, 1, 0, 0], [1, 0, 0, 0]]


def test_ties_at_the_top_k_border_keep_the_lower_ids():
    rows = warp(np.zeros((1, 500)), SamplingParams(top_k=3))
    assert rows.token_ids is not None
    assert rows.token_ids.tolist() == [0, 1, 2]
    assert np.allclose(rows.probs, 1 / 3)


@pytest.mark.parametrize("params", [SamplingParams(), SamplingParams(top_k=2)])
def test_minus_infinity_logits_get_probability_zero(params):
    logits = np.array([[0.0, -np.inf, -np.inf, np.log(3.0)]])
    assert full(warp(logits, params), 4).tolist() == [[0.25, 0, 0, 0.75]]


def test_truncations_off_give_dense_rows_of_the_same_dtype():
    logits = np.random.default_rng(0).normal(size=(2, 10)).astype(np.float32)
    rows = warp(logits, SamplingParams(temperature=0.5, top_k=10))
    assert rows.token_ids is None and rows.probs.dtype == np.float32
    assert np.allclose(rows.probs, softmax(logits * 2), atol=1e-6)
    assert np.allclose(rows.probs.sum(axis=1), 1)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize(
    "params", [SamplingParams(), SamplingParams(temperature=0), SamplingParams(top_p=0.9)]
)
def test_logits_that_are_not_finite_are_an_error(bad, params):
    logits = np.zeros((2, 50), dtype=np.float32)
    logits[1, 7] = bad
    with pytest.raises(BackendError, match="not finite"):
        warp(logits, params)
    with pytest.raises(BackendError, match="not finite"):
        warp(np.full((1, 50), -np.inf), params)


@pytest.mark.parametrize("temperature", [1e-5, 100.0])
@pytest.mark.parametrize("options", [{}, {"top_k": 5}, {"top_p": 0.9}, {"min_p": 0.1}])
def test_the_ends_of_the_temperature_range_give_proper_rows(temperature, options):
    """With 32-bit logits as large as the largest penalties make them."""
    logits = np.random.default_rng(1).normal(size=(3, 900)).astype(np.float32) * 30
    logits[:, 5] *= 100
    rows = warp(logits, SamplingParams(temperature=temperature, **options)).probs
    assert np.isfinite(rows).all() and np.allclose(rows.sum(axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("temperature", [1e-5, 0.3, 1.0, 7.0])
def test_the_entropies_of_dense_rows_are_theirs(temperature):
    logits = np.random.default_rng(2).normal(size=(4, 900)) * 8
    logits[1, 5:] = -np.inf
    rows = warp(logits, SamplingParams(temperature=temperature))
    safe = np.where(rows.probs > 0, rows.probs, 1.0)
    expected = -(rows.probs * np.log(safe)).sum(axis=1)
    assert np.abs(rows.entropies - expected).max() < 1e-12


def test_logits_are_not_changed():
    logits = np.random.default_rng(0).normal(size=(2, 300))
    before = logits.copy()
    for params in (
        SamplingParams(),
        SamplingParams(temperature=0.5, top_p=0.5),
        SamplingParams(temperature=0),
    ):
        warp(logits, params)
    assert np.array_equal(logits, before)


@pytest.mark.parametrize("options", [{"top_k": 5}, {"top_p": 0.9}, {"min_p": 0.1}, {}])
def test_a_row_alone_is_what_it_is_among_others(options):
    logits = np.random.default_rng(4).normal(size=(3, 900)).astype(np.float32) * 4
    params = SamplingParams(temperature=0.7, **options)
    together = full(warp(logits, params), 900)
    for row, line in zip(together, logits, strict=True):
        alone = warp(line[None], params)
        assert np.array_equal(full(alone, 900)[0], row)
        assert alone.token_ids is None or (np.diff(alone.token_ids) > 0).all()
