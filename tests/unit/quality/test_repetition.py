"""n-grams by hand."""

import pytest

from leeway.quality.repetition import (
    all_counts,
    distinct_rate,
    ngram_counts,
    repetition_rate,
    words_of,
)


def test_counts_by_hand():
    pieces = words_of(" a b\na b  a ")
    assert pieces == ["a", "b", "a", "b", "a"]
    assert all_counts(pieces) == ((2, 5), (2, 4), (2, 3), (2, 2))
    assert ngram_counts([1, 2], 3) == (0, 0)


def test_rates_are_means_over_texts_long_enough():
    assert distinct_rate([(1, 2), (3, 3), (0, 0)]) == pytest.approx(0.75)
    assert repetition_rate([(1, 4), (4, 4)]) == pytest.approx(1 - (0.25 + 1) / 2)
    assert distinct_rate([(0, 0)]) is None and repetition_rate([]) is None


def test_a_loop_is_seen():
    loop, prose = words_of("so it is " * 20), words_of(" ".join(map(str, range(60))))
    assert repetition_rate([all_counts(loop)[3]]) > 0.9
    assert repetition_rate([all_counts(prose)[3]]) == 0.0
