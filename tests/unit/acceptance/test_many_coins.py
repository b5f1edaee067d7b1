"""Coins for many requests: published words, the same bits everywhere, plausible chance.

Chance is fixed by seeds; each chi-square test alarms falsely with probability 1e-4 over seeds.
"""

import numpy as np
import pytest
from scipy import stats
from tests.support.array_kinds import KINDS, numbers

from leeway.acceptance.many_coins import draw_many, philox, uniforms
from leeway.core.rng import Purpose, invert_cdf

FALSE_ALARM_RATE = 1e-4
NUM_KEYS = 40_000
KEYS = np.random.default_rng(11).integers(-(2**63), 2**63, size=NUM_KEYS, dtype=np.int64)
pytestmark = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)

# Known answers of Philox4x32-10 in the test vectors of Random123: counter, key, words.
KNOWN_ANSWERS = [
    (
        "00000000 00000000 00000000 00000000",
        "00000000 00000000",
        "6627e8d5 e169c58d bc57ac4c 9b00dbd8",
    ),
    (
        "ffffffff ffffffff ffffffff ffffffff",
        "ffffffff ffffffff",
        "408f276d 41c83b0e a20bc7c6 6d5451fd",
    ),
    (
        "243f6a88 85a308d3 13198a2e 03707344",
        "a4093822 299f31d0",
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]


def words(kind, text):
    return tuple(kind.array([int(word, 16)]) for word in text.split())


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS, ids=["0", "1", "pi"])
def test_known_answers_of_the_generator(counter, key, expected, kind):
    found = philox(words(kind, counter), words(kind, key))
    assert [f"{int(word[0]):08x}" for word in found] == expected.split()


def coins(kind, keys, steps, num_rows=1, purpose=Purpose.ACCEPT):
    keys = np.asarray(keys, dtype=np.int64)
    steps = np.broadcast_to(np.asarray(steps, dtype=np.int64), keys.shape)
    return numbers(uniforms(kind.array(keys), kind.array(steps), num_rows, purpose))


def test_a_coin_is_53_bits_of_the_first_two_words(kind):
    (low,), (high,), *_ = philox(words(kind, "2 1 5 0"), words(kind, "7 ffffffff"))
    expected = (int(high) >> 5 << 26 | int(low) >> 6) * 2.0**-53
    key = 7 - 2**32  # all bits of the upper half
    assert coins(kind, [key], 5, num_rows=3, purpose=Purpose.ACCEPT)[0, 2] == expected


def test_the_same_bits_as_numpy_at_any_key_and_step(kind):
    keys = np.array([0, 1, -1, 2**63 - 1, -(2**63), 123456789012345678])
    steps = np.array([0, 1, 2**31, 2**32, 2**40 + 7, 2**62])
    for purpose in Purpose:
        found = coins(kind, keys, steps, 5, purpose)
        assert found.dtype == np.float64
        assert np.array_equal(found, coins(KINDS[0], keys, steps, 5, purpose))


def test_more_rows_or_requests_move_no_coin(kind):
    wide = coins(kind, [5, 6, 7], [1, 2, 3], 8)
    assert np.array_equal(coins(kind, [5, 6, 7], [1, 2, 3], 3), wide[:, :3])
    assert np.array_equal(coins(kind, [6], [2], 8), wide[1:2])
    assert coins(kind, [5, 6], [1, 2], 0).shape == (2, 0)


def test_no_two_of_many_keys_throw_the_same_coin(kind):
    keys, steps = (grid.ravel() for grid in np.meshgrid([1, 2, 2**32, -1], [0, 1, 2**32]))
    found = [coins(kind, keys, steps, 50, purpose) for purpose in Purpose]
    assert len(np.unique(found)) == np.size(found)


def assert_uniform(counts):
    assert stats.chisquare(counts).pvalue > FALSE_ALARM_RATE


def test_coins_are_uniform(kind):
    for purpose in Purpose:
        found = coins(kind, KEYS, 3, 2, purpose)
        assert found.min() >= 0
        assert found.max() < 1
        assert_uniform(np.histogram(found, bins=64, range=(0, 1))[0])
        fine = (found * 2**32) % 1  # the bits behind the first 32
        assert_uniform(np.histogram(fine, bins=64, range=(0, 1))[0])


def test_consecutive_steps_of_one_key_are_uniform(kind):
    steps = np.arange(NUM_KEYS)
    assert_uniform(np.histogram(coins(kind, 0 * steps + 9, steps), bins=64, range=(0, 1))[0])


@pytest.mark.parametrize("other", ["key", "row", "step", "purpose", "upper key", "upper step"])
def test_neighbouring_coins_are_independent(other, kind):
    steps = 2 * np.arange(NUM_KEYS)
    here = coins(kind, 0 * steps + 4, steps)[:, 0]
    there = {
        "key": lambda: coins(kind, 0 * steps + 5, steps)[:, 0],
        "row": lambda: coins(kind, 0 * steps + 4, steps, 2)[:, 1],
        "step": lambda: coins(kind, 0 * steps + 4, steps + 1)[:, 0],
        "purpose": lambda: coins(kind, 0 * steps + 4, steps, 1, Purpose.RECOVER)[:, 0],
        "upper key": lambda: coins(kind, 0 * steps + 4 + 2**32, steps)[:, 0],
        "upper step": lambda: coins(kind, 0 * steps + 4, steps + 2**32)[:, 0],
    }[other]()
    counts, _, _ = np.histogram2d(here, there, bins=8, range=[(0, 1), (0, 1)])
    assert_uniform(counts.ravel())


def draws(kind, probs, found):
    return numbers(draw_many(kind.array(probs), kind.array(found)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("num_columns", [1, 2, 255, 256, 257, 512, 1000, 49_152])
def test_draws_are_those_of_the_single_request(num_columns, dtype, kind):
    generator = np.random.default_rng(num_columns)
    probs = generator.dirichlet(np.full(num_columns, 0.05), size=12).astype(dtype)
    probs[:, generator.integers(num_columns, size=num_columns // 3)] = 0
    probs[:, -1] += dtype(1e-3)
    found = generator.random(12)
    expected = [invert_cdf(row, coin) for row, coin in zip(probs, found, strict=True)]
    assert draws(kind, probs, found).tolist() == expected


@pytest.mark.parametrize("num_columns", [5, 700])
def test_each_column_is_drawn_on_exactly_its_share_of_the_coins(num_columns, kind):
    generator = np.random.default_rng(3)
    probs = generator.dirichlet(np.full(num_columns, 0.5))
    probs[generator.integers(num_columns, size=num_columns // 4)] = 0
    probs /= probs.sum()
    ends = np.cumsum(probs)
    starts, drawn = ends - probs, np.flatnonzero(probs > 1e-9)
    for edge in (starts + 1e-12, ends - 1e-12):
        rows = np.tile(probs, (len(drawn), 1))
        assert draws(kind, rows, np.clip(edge[drawn], 0, 1 - 2**-53)).tolist() == drawn.tolist()


@pytest.mark.parametrize("coin", [0.0, 2.0**-53, 0.5, 1 - 2.0**-53])
@pytest.mark.parametrize("num_columns", [4, 300, 513])
def test_no_draw_of_a_column_without_probability(num_columns, coin, kind):
    for place in (1, num_columns // 2, num_columns - 2):
        probs = np.zeros((2, num_columns), dtype=np.float32)
        probs[:, place] = 0.3, 1e-30
        probs[0, place - 1] = 1e-9
        found = draws(kind, probs, np.array([coin, coin]))
        assert found[1] == place
        assert found[0] in {place - 1, place}


def test_no_requests_no_draws(kind):
    for num_columns in (3, 300):
        assert draws(kind, np.empty((0, num_columns)), np.empty(0)).shape == (0,)
