"""How much of a text repeats itself: alarms for loops and for lost diversity.

In: the words or tokens of texts. Out: counts of n-grams. Knows nothing of quality itself: a text
that repeats may be right, and one that does not may be wrong.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

LONGEST = 4
REPEATED = 4
"""n of the repetition rate."""
Counts = tuple[int, int]
"""Distinct n-grams, and all of them."""


def words_of(text: str) -> list[str]:
    """Return the pieces between white space: the same for every tokenizer."""
    return text.split()


def ngram_counts(pieces: Sequence[Hashable], length: int) -> Counts:
    """Return how many n-grams of this length are distinct, and how many there are."""
    grams = list(zip(*(pieces[start:] for start in range(length)), strict=False))
    return len(set(grams)), len(grams)


def all_counts(pieces: Sequence[Hashable]) -> tuple[Counts, ...]:
    """Return the counts for lengths 1 to `LONGEST`."""
    return tuple(ngram_counts(pieces, length) for length in range(1, LONGEST + 1))


def distinct_rate(counts: Sequence[Counts]) -> float | None:
    """Return the mean of distinct / all over texts; None where no text is long enough.

    Source: J. Li et al. 2016, arXiv 1510.03055 (distinct-n).
    Deviates: within each text, then the mean, so that it does not fall with the amount of text.
    """
    rates = [distinct / total for distinct, total in counts if total]
    return sum(rates) / len(rates) if rates else None


def repetition_rate(counts: Sequence[Counts]) -> float | None:
    """Return 1 less the distinct rate of n-grams of length `REPEATED`.

    Source: S. Welleck et al. 2020, arXiv 1908.04319 (seq-rep-4).
    """
    rate = distinct_rate(counts)
    return None if rate is None else 1 - rate
