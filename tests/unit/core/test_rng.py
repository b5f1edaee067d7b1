"""Coins: pure, half-open, independent keys; inverse cumulative draws are exact."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leeway.core.rng import MAX_SEED, KeyedCoins, Purpose, invert_cdf, uniform


def test_a_coin_is_a_pure_function_of_its_key():
    key = (7, 3, 2, Purpose.ACCEPT)
    assert uniform(*key) == uniform(*key)


def test_t04_no_two_keys_share_a_coin():
    keys = itertools.product((0, 1, MAX_SEED), range(20), range(8), Purpose)
    coins = [uniform(*key) for key in keys]
    assert len(set(coins)) == len(coins)
    assert all(0 <= coin < 1 for coin in coins)


def test_t04_coins_are_uniform_and_uncorrelated():
    """Fixed keys, so the outcome is fixed; bounds are 4 standard errors of a fair source."""
    coins = np.array(
        [[uniform(1, step, 0, purpose) for purpose in Purpose] for step in range(5000)]
    )
    assert np.all(np.abs(coins.mean(axis=0) - 0.5) < 4 * np.sqrt(1 / 12 / 5000))
    correlation = np.corrcoef(coins.T) - np.eye(len(Purpose))
    assert np.all(np.abs(correlation) < 4 / np.sqrt(5000))


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=30).filter(lambda row: sum(row) > 0),
    st.floats(0, 1, exclude_max=True),
)
def test_inversion_finds_the_column_the_coin_falls_into(row, coin):
    probs = np.array(row) / sum(row)
    column = invert_cdf(probs, coin)
    before, behind = probs[:column].sum(), probs[: column + 1].sum()
    assert probs[column] > 0
    assert before - 1e-12 <= coin * probs.sum() <= behind + 1e-12


@pytest.mark.parametrize("size", [255, 256, 257, 5000])
def test_t24_grouped_inversion_equals_the_plain_one(size):
    generator = np.random.default_rng(size)
    probs = generator.dirichlet(np.full(size, 0.05))
    cumulative = np.cumsum(probs)
    for coin in generator.random(300):
        column = invert_cdf(probs, coin)
        assert probs[column] > 0
        assert cumulative[column] - probs[column] - 1e-12 <= coin <= cumulative[column] + 1e-12


def test_the_last_coin_never_draws_an_impossible_column():
    probs = np.zeros(1000)
    probs[[3, 400]] = 0.5
    assert invert_cdf(probs, np.nextafter(1.0, 0.0)) == 400
    assert invert_cdf(probs[:10] * 2, np.nextafter(1.0, 0.0)) == 3
    assert invert_cdf(probs, 0.0) == 3


def test_keyed_coins_accept_with_certainty_only_at_the_ends():
    coins = KeyedCoins(5)
    for step in range(50):
        assert not coins.accepts(0.0, step=step, row=0, purpose=Purpose.ACCEPT)
        assert coins.accepts(1.0, step=step, row=0, purpose=Purpose.ACCEPT)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_outside_its_range_is_refused(seed):
    with pytest.raises(ValueError, match="outside"):
        KeyedCoins(seed)
