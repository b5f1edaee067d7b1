import math

import numpy as np
import pytest
from tests.support.array_kinds import ArrayKind

from leeway.acceptance import algebra

PRECISIONS = [np.float32, np.float64]


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_capped_ratio_survives_zeros_and_tiny_numbers(dtype):
    tiny = np.finfo(dtype).smallest_subnormal
    numerator = np.array([0.0, 0.5, 0.0, 0.2, 0.5, tiny, 0.3], dtype=dtype)
    denominator = np.array([0.0, 0.0, 0.5, 0.4, tiny, 0.5, 0.3], dtype=dtype)
    ratio = algebra.capped_ratio(numerator, denominator)
    assert ratio.dtype == dtype
    assert ratio == pytest.approx([0, 1, 0, 0.5, 1, 0, 1])
    assert ratio[-1] == 1


def test_normalise_falls_back_row_by_row():
    rows = np.array([[2.0, 2.0], [0.0, 0.0]])
    fallback = np.array([[0.1, 0.9], [0.3, 0.7]])
    assert algebra.normalise(rows, fallback).tolist() == [[0.5, 0.5], [0.3, 0.7]]
    assert algebra.normalise(rows[0], fallback[0]).tolist() == [0.5, 0.5]


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_entropy_in_nats(dtype):
    rows = np.array([[0.25] * 4, [1, 0, 0, 0], [0.5, 0.5, 0, 0]], dtype=dtype)
    entropy = algebra.entropy(rows)
    assert entropy.dtype == dtype
    assert entropy == pytest.approx([math.log(4), 0, math.log(2)])


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_kl_divergence_is_infinite_only_outside_the_support(dtype):
    rows = np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.2, 0.8, 0.0]], dtype=dtype)
    others = np.array([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0], [0.2, 0.8, 0.0]], dtype=dtype)
    divergence = algebra.kl_divergence(rows, others)
    assert divergence.dtype == dtype
    assert divergence == pytest.approx([0.5 * math.log(2), math.inf, 0])


def test_total_variation_of_disjoint_rows_is_one():
    rows = np.array([[1.0, 0.0], [0.5, 0.5]])
    others = np.array([[0.0, 1.0], [0.25, 0.75]])
    assert algebra.total_variation(rows, others).tolist() == [1.0, 0.25]


def test_gathering_and_point_masses():
    rows = np.array([[0.1, 0.9], [0.6, 0.4]])
    columns = np.array([1, 0])
    assert algebra.at(rows, columns).tolist() == [0.9, 0.6]
    assert algebra.one_hot(columns, rows).tolist() == [[0, 1], [1, 0]]
    assert algebra.most_likely(np.array([0.4, 0.4, 0.2])) == 0
    assert algebra.peak(rows).tolist() == [0.9, 0.6]
    assert algebra.positive_part(np.array([-1.0, 2.0])).tolist() == [0, 2]


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_only_where_keeps_the_very_numbers_inside_and_zero_outside(dtype):
    rows = np.array([[0.1, 0.7, 0.2], [0.3, 0.3, 0.4]], dtype=dtype)
    mask = np.array([[True, False, True], [False, False, False]])
    kept = algebra.only_where(mask, rows)
    assert kept.dtype == dtype
    assert np.array_equal(kept, np.where(mask, rows, dtype(0)))


def test_without_takes_one_column_off_each_row():
    rows = np.array([[0.1, 0.7, 0.2], [0.3, 0.3, 0.4]])
    assert algebra.without(rows, np.array([1, 2])).tolist() == [[0.1, 0, 0.2], [0.3, 0.3, 0]]


def test_only_numpy_is_looked_at():
    holds, fails = np.all(np.array([True])), np.all(np.array([False]))
    assert algebra.is_known(holds)
    assert not algebra.is_known(fails)
    tensor = ArrayKind("torch-cpu").array(np.array(True))
    assert not algebra.is_known(tensor)
    assert algebra.namespace(holds) is np


def test_the_sum_of_products_on_a_tensor():
    rows = np.array([[0.1, 0.7, 0.2], [0.3, 0.3, 0.4]])
    tensor = ArrayKind("torch-cpu").array(rows)
    expected = [0.01 + 0.49 + 0.04, 0.09 + 0.09 + 0.16]
    assert algebra.dot(rows, rows) == pytest.approx(expected)
    assert algebra.dot(tensor, tensor).tolist() == pytest.approx(expected)
