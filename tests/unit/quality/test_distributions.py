"""Tail probabilities against scipy."""

import pytest
from scipy import stats

from leeway.quality.distributions import chi_square_survival, normal_quantile, two_sided_p


@pytest.mark.parametrize("num_degrees", [1, 2, 7, 49, 99, 1000])
@pytest.mark.parametrize("ratio", [0.01, 0.3, 0.9, 1.0, 1.02, 1.3, 2.0, 5.0])
def test_chi_square_survival_equals_scipys(num_degrees, ratio):
    statistic = ratio * num_degrees
    expected = stats.chi2.sf(statistic, num_degrees)
    found = chi_square_survival(statistic, num_degrees)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-14)


def test_no_distance_is_no_surprise():
    assert chi_square_survival(0.0, 49) == 1.0


@pytest.mark.parametrize("z", [0.0, 0.5, -1.96, 2.576, -6.0])
def test_two_sided_p_equals_scipys(z):
    assert two_sided_p(z) == pytest.approx(2 * stats.norm.sf(abs(z)), rel=1e-12)


@pytest.mark.parametrize("probability", [0.005, 0.5, 0.8, 0.975])
def test_normal_quantile_equals_scipys(probability):
    assert normal_quantile(probability) == pytest.approx(stats.norm.ppf(probability), abs=1e-12)
