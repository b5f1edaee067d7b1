"""Algebra on probability rows: what every law is written in.

In: rows [..., num_columns] of NumPy, or of any array that array-api-compat knows (torch). Out:
arrays of the same kind, precision and device. Knows no law. Nothing here warns or yields NaN on
zeros, point masses or disjoint supports.

Where values lie in host memory a law may look at them and skip work; on another array a look would
wait for the device and could not be recorded in a graph. `is_known` is the one place that decides
it: its answer is no wherever looking is not free, and the law then takes the way that is right for
every value.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

import numpy as np

from leeway.acceptance.base import Array


def namespace(array: Array) -> Any:  # noqa: ANN401
    """Return the array namespace that `array` belongs to: NumPy, else array-api-compat's."""
    if is_numpy(array):
        return np
    known = _namespace_of(type(array).__module__)
    return known or _compat("array_api_compat").array_namespace(array)


@cache
def _namespace_of(origin: str) -> Any:  # noqa: ANN401
    """Return the namespace of arrays that this module defines, or None if they must be asked.

    A step asks some hundred times, and asking takes longer than some of the sums.
    """
    is_torch = origin.partition(".")[0] == "torch"
    return _compat("array_api_compat.torch") if is_torch else None


def _compat(name: str) -> Any:  # noqa: ANN401
    return importlib.import_module(name)  # not needed where all arrays are NumPy's


def is_numpy(array: Array) -> bool:
    """Return whether the array is NumPy's, whose values may be looked at for nothing."""
    return isinstance(array, (np.ndarray, np.generic))


def is_known(condition: Array) -> bool:
    """Return whether a condition ([]) holds and may be looked at."""
    return is_numpy(condition) and bool(condition)


def smallest(array: Array) -> float:
    """Return the smallest normal number of the array's precision."""
    return float(namespace(array).finfo(array.dtype).smallest_normal)


def total(rows: Array) -> Array:
    """Return the sum over columns: [...]."""
    return namespace(rows).sum(rows, axis=-1)


def dot(rows: Array, others: Array) -> Array:
    """Return the sum over columns of the product: [...].

    No matrix product is used for it. Devices may round its factors to fewer bits; and under NumPy
    a BLAS library starts threads of its own for long rows, which go on spinning on the cores that
    the next forward needs (half as slow again on two cores).
    """
    if is_numpy(rows):
        return np.einsum("...i,...i->...", rows, others)
    return total(rows * others)


def peak(rows: Array) -> Array:
    """Return the largest probability of each row: [...]."""
    return namespace(rows).max(rows, axis=-1)


def positive_part(rows: Array) -> Array:
    """Return max(rows, 0), column by column."""
    return namespace(rows).clip(rows, 0.0, None)


def only_where(mask: Array, rows: Array) -> Array:
    """Return rows with 0 outside the mask; in NumPy a product takes half the time of a choice."""
    xp = namespace(rows)
    return rows * xp.astype(mask, rows.dtype) if is_numpy(rows) else xp.where(mask, rows, 0.0)


def at(rows: Array, columns: Array) -> Array:
    """Return the entry of each row at its column.

    Args:
        rows: [..., num_columns].
        columns: [...], 64-bit integers.
    """
    return entries(rows, columns[..., None])[..., 0]


def entries(rows: Array, columns: Array) -> Array:
    """Return the entries of each row at several columns: [..., num_entries].

    Torch's own function takes a sixth of the time.

    Args:
        rows: [..., num_columns].
        columns: [..., num_entries], 64-bit integers.
    """
    if hasattr(rows, "gather"):
        return rows.gather(-1, columns)
    return namespace(rows).take_along_axis(rows, columns, axis=-1)


def one_hot(columns: Array, like: Array) -> Array:
    """Return point masses at `columns` ([...]) in the shape and precision of `like`."""
    xp = namespace(like)
    return xp.astype(column_indices(like) == columns[..., None], like.dtype)


def without(rows: Array, columns: Array) -> Array:
    """Return rows with 0 at one column each ([...], integers)."""
    return only_where(column_indices(rows) != columns[..., None], rows)


def column_indices(rows: Array) -> Array:
    """Return 0, 1, ... for every column, where the rows lie: [num_columns]."""
    return namespace(rows).arange(rows.shape[-1], device=rows.device)


def most_likely(rows: Array) -> Array:
    """Return the column of the largest probability of each row, the first among equals: [...]."""
    return namespace(rows).argmax(rows, axis=-1)


def normalise(rows: Array, fallback: Array) -> Array:
    """Return rows divided by their sums; a row without mass becomes its row of `fallback`.

    A residual without mass is drawn from only where rounding rejected a token that the formula
    accepts with probability one.
    """
    xp = namespace(rows)
    mass = xp.sum(rows, axis=-1, keepdims=True)
    has_mass = mass > 0
    scaled = rows / xp.where(has_mass, mass, 1.0)
    return scaled if is_known(xp.all(has_mass)) else xp.where(has_mass, scaled, fallback)


def capped_ratio(numerator: Array, denominator: Array) -> Array:
    """Return min(1, numerator / denominator), without overflow.

    Where the denominator is zero: 1 if the numerator is positive, 0 if it is zero as well.
    """
    xp = namespace(numerator)
    larger = xp.maximum(numerator, denominator)
    return numerator / xp.where(larger > 0, larger, 1.0)


def total_variation(rows: Array, others: Array) -> Array:
    """Return TV = half the L1 distance between rows that each sum to one: [...]."""
    xp = namespace(rows)
    return 0.5 * xp.sum(xp.abs(rows - others), axis=-1)


def entropy(rows: Array) -> Array:
    """Return the Shannon entropy of each row in nats: [...]."""
    return -dot(rows, namespace(rows).log(rows + smallest(rows)))


def kl_divergence(rows: Array, others: Array, *, is_inside: bool = False) -> Array:
    """Return KL(rows || others) in nats: [...]; infinite where a row leaves the other's support.

    `is_inside` promises that no row does, and saves looking.
    """
    return namespace(rows).clip(kl_sum(rows, others, is_inside=is_inside), 0.0, None)


def kl_sum(rows: Array, others: Array, *, is_inside: bool = False) -> Array:
    """Return sum e log(e / p) over the given columns, which may be a part of the row: [...].

    Adding the smallest number keeps the logarithm finite at zeros and changes no probability that
    matters; it is faster than a clip.
    """
    xp = namespace(rows)
    floor = smallest(rows)
    divergence = dot(rows, xp.log((rows + floor) / (others + floor)))
    if is_inside:
        return divergence
    leaves = xp.any((rows > 0) & (others <= 0), axis=-1)
    return xp.where(leaves, float("inf"), divergence)
