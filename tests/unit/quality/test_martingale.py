"""The tests of emitted text: a case by hand, how often they cry wolf, what they see."""

import math
from collections import Counter
from functools import partial

import numpy as np
import pytest
from scipy import stats
from tests.support.tabular_engine import make_engine

from leeway.backends.tabular import TabularBackend, random_table
from leeway.core.errors import RequestError
from leeway.core.rng import Purpose, uniform
from leeway.core.types import Acceptance, SamplingParams
from leeway.quality.answers import collect_answers
from leeway.quality.martingale import check_testable, martingale_test, uniformity_test
from leeway.quality.teacher_forcing import TokenScores, score

TABLE = random_table(5, 1, seed=31, concentration=0.7)
DRAFT_TABLE = random_table(5, 1, seed=32, concentration=0.7)
PROMPTS = [(0,), (1, 2), (3,)]
EOS = 4


def scores_of(
    acceptance, *, seed, min_tokens, table=TABLE, draft_table=DRAFT_TABLE, eos=EOS, **sampling
):
    """Answers of a table engine under a law, scored by the target."""
    engine = make_engine(
        table,
        drafter="draft_model",
        draft_table=draft_table,
        acceptance=acceptance,
        num_speculative_tokens=2,
        eos_token_id=eos,
    )
    params = SamplingParams(**{"max_tokens": 12, **sampling})
    answers = collect_answers(engine, PROMPTS, params, min_tokens=min_tokens, seed=seed)
    target = TabularBackend(table, 1)
    return [score(target, one.prompt_ids, one.token_ids, params) for one in answers]


def coin(answer, token):
    return uniform(answer, token, 0, Purpose.MEASURE)


def other_coin(run, answer, token):
    return uniform(run, answer, token, Purpose.MEASURE)


def test_z_by_hand():
    table = {(): np.array([0.5, 0.25, 0.25])}
    target = TabularBackend(table, 0)
    scores = [score(target, (0,), (0, 1), SamplingParams()) for _ in range(2)]
    found = martingale_test(scores)
    step = math.log(2) / 2  # log p + H is + or - half a bit, and so is its deviation
    assert found.num_tokens == 4 and found.num_answers == 2
    assert found.z == pytest.approx(0.0, abs=1e-12) and found.p_value == pytest.approx(1.0)
    found = martingale_test([score(target, (0,), (0, 0, 1), SamplingParams())])
    assert found.z == pytest.approx(step / math.sqrt(3 * step**2))
    assert found.bias == pytest.approx(step / 3)
    wide = 1.959963984540054 * math.sqrt(3) * step / 3
    assert found.interval == pytest.approx((step / 3 - wide, step / 3 + wide))
    detectable = (2.5758293035489004 + 0.8416212335729143) * math.sqrt(3) * step / 3
    assert found.detectable_bias == pytest.approx(detectable)
    assert found.p_value == pytest.approx(2 * stats.norm.sf(found.z))
    assert found.clustered is None and not found.rejects


def test_clusters_by_hand():
    """Answers alike inside and apart from one another: the rows' variance is far too small."""
    ten = np.full(10, 0.5), np.zeros(10)
    good = TokenScores(*ten, np.full(10, 0.9), np.full(10, 0.25))
    bad = TokenScores(*ten, np.full(10, math.log(2) - 0.1), np.full(10, 0.25))
    found = martingale_test([good] * 6 + [bad] * 6)
    each = 10 * (0.9 - math.log(2)), -1.0
    total = 6 * sum(each)
    assert found.clustered.z == pytest.approx(total / math.sqrt(6 * (each[0] ** 2 + each[1] ** 2)))
    rest = [value - found.bias * 10 for value in each]
    deviation = math.sqrt(6 * (rest[0] ** 2 + rest[1] ** 2) * 12 / 11) / 120
    low, high = found.clustered.interval
    assert (high - low) / 2 == pytest.approx(1.959963984540054 * deviation)
    assert (high + low) / 2 == pytest.approx(found.bias) == pytest.approx(total / 120)


def test_tokens_outside_the_row_are_counted_and_left_out():
    table = {(): np.array([0.5, 0.25, 0.25])}
    target = TabularBackend(table, 0)
    with_one = score(target, (0,), (0, 2, 1), SamplingParams(top_k=2))
    without = score(target, (0,), (0, 1), SamplingParams(top_k=2))
    found, expected = martingale_test([with_one]), martingale_test([without])
    assert (found.num_outside, found.num_tokens) == (1, 2)
    assert found.z == expected.z
    none_left = martingale_test([with_one, score(target, (0,), (2,), SamplingParams(top_k=2))])
    assert (none_left.num_outside, none_left.num_answers) == (2, 1)


def test_what_leaves_nothing_to_chance_is_refused():
    with pytest.raises(RequestError, match="temperature 0 leaves no chance"):
        check_testable(SamplingParams(temperature=0.0))
    check_testable(SamplingParams(temperature=0.1))
    target = TabularBackend({(): np.array([1.0, 0.0])}, 0)
    with pytest.raises(RequestError, match="nothing to chance at the 2 tokens"):
        martingale_test([score(target, (0,), (0, 0), SamplingParams())])
    with pytest.raises(RequestError, match="at the 0 tokens"):
        martingale_test([])


RUNS = 100
TESTED = [
    (Acceptance("rejection"), {}),
    (Acceptance("block"), {"temperature": 0.8, "top_k": 3}),
]


@pytest.mark.parametrize(("acceptance", "sampling"), TESTED, ids=["rejection", "block-top_k"])
def test_false_alarms_under_exact_laws_are_as_frequent_as_promised(acceptance, sampling):
    """Answers end at an end token or at max_tokens: neither biases the sum.

    100 runs with their own seeds: the share of p < 0.05 lies inside the central 99.9 % of its
    binomial, and the p values of both tests pass a Kolmogorov test at 0.1 %: together a false
    alarm of this test in 300 changes of seeds; the seeds are fixed.
    """
    p_values, uniformity = [], []
    for run in range(RUNS):
        scores = scores_of(acceptance, seed=1000 * run, min_tokens=160, **sampling)
        p_values.append(martingale_test(scores).p_value)
        uniformity.append(uniformity_test(scores, partial(other_coin, run), num_bins=20))
    alarms = sum(p_value < 0.05 for p_value in p_values)
    low, high = stats.binom.interval(0.999, RUNS, 0.05)
    assert low <= alarms <= high
    assert stats.kstest(p_values, "uniform").pvalue > 1e-3
    assert stats.kstest([one.p_value for one in uniformity], "uniform").pvalue > 1e-3


def without_last(scores):
    columns = scores.prob, scores.cdf_below, scores.entropy, scores.variance
    return TokenScores(*(values[:-1] for values in columns))


def test_leaving_out_the_end_token_would_cry_wolf():
    """The negative control of what the sum must hold: every emitted token."""
    row = np.array([0.2, 0.1, 0.1, 0.6])
    table = {(): row} | {(token,): row for token in range(4)}
    scores = scores_of(
        Acceptance(), seed=5, min_tokens=1500, table=table, draft_table=table, eos=3, top_k=4
    )
    cut = [without_last(one) for one in scores if len(one.prob) < 12]
    assert abs(martingale_test(scores).z) < 2.58
    assert martingale_test(cut).z < -10


SHARP = {context: row**2 / (row**2).sum() for context, row in TABLE.items()}
LOSSY = [
    Acceptance("typical", {"delta": 0.09}),
    Acceptance("typical", {"delta": 0.2, "off_set": "coin"}),
    Acceptance("tokenv3", {"alpha": 0.95}),
]


@pytest.mark.parametrize("acceptance", LOSSY, ids=["typical", "typical-coin", "tokenv3"])
@pytest.mark.parametrize(
    ("draft_table", "sign"), [(DRAFT_TABLE, -1), (SHARP, 1)], ids=["foreign", "sharp"]
)
def test_lossy_laws_are_seen_on_either_side(acceptance, draft_table, sign):
    scores = scores_of(acceptance, seed=3, min_tokens=2000, draft_table=draft_table)
    found = martingale_test(scores)
    assert sign * found.z > 2.58 and found.rejects
    assert not found.interval[0] <= 0 <= found.interval[1]
    assert sign * found.clustered.z > 2.58


def test_a_bias_that_is_called_detectable_is_found_four_times_in_five():
    """Tokens of a row (1/2, 1/4, 1/4), the likely one drawn a little too often, 400 runs."""
    num, step = 2000, math.log(2) / 2  # log p + H is + or - step
    row = np.full(num, 1.5 * math.log(2)), np.full(num, step**2)

    def test_of(likely):
        prob = np.where(likely, 0.5, 0.25)
        return martingale_test([TokenScores(prob, np.zeros(num), *row)])

    detectable = test_of(np.arange(num) % 2 == 0).detectable_bias
    generator = np.random.default_rng(21)
    drawn = generator.random((400, num)) < 0.5 + detectable / step / 2
    found = [test_of(likely) for likely in drawn]
    assert np.mean([one.bias for one in found]) == pytest.approx(detectable, rel=0.05)
    low, high = stats.binom.interval(0.999, 400, 0.8)
    assert low <= sum(one.rejects for one in found) <= high


def test_without_the_lossy_law_the_same_drafts_are_not_seen():
    for draft_table in (DRAFT_TABLE, SHARP):
        scores = scores_of(Acceptance(), seed=3, min_tokens=2000, draft_table=draft_table)
        assert not martingale_test(scores).rejects


def test_a_loss_that_leaves_log_p_alone_is_seen_by_uniformity():
    """TokenV3 0.75 with foreign drafts swaps tokens whose log p averages out, near enough."""
    acceptance = Acceptance("tokenv3", {"alpha": 0.75})
    scores = scores_of(acceptance, seed=3, min_tokens=2000)
    assert not martingale_test(scores).rejects
    assert uniformity_test(scores, coin).p_value < 1e-6


def test_uniformity_sees_what_the_likelihood_cannot():
    """Tokens swapped for their equally likely twins: log p is the same, the CDF is not."""
    target = TabularBackend({(): np.full(4, 0.25)}, 0)
    drawn = np.random.default_rng(1).integers(0, 2, size=400)
    scores = [score(target, (0,), [int(one)], SamplingParams()) for one in drawn]
    with pytest.raises(RequestError, match="nothing to chance"):
        martingale_test(scores)
    assert uniformity_test(scores, coin).p_value < 1e-10
    fair = np.random.default_rng(1).integers(0, 4, size=400)
    scores = [score(target, (0,), [int(one)], SamplingParams()) for one in fair]
    assert uniformity_test(scores, coin).p_value > 0.01


def test_uniformity_by_hand():
    scores = TokenScores(np.full(20, 0.5), np.full(20, 0.5), np.zeros(20), np.ones(20))
    found = uniformity_test([scores], lambda answer, token: token / 20, num_bins=4)
    observed = Counter(min(int((0.5 + token / 40) * 4), 3) for token in range(20))
    assert (observed[2], observed[3]) == (10, 10)
    assert found.statistic == pytest.approx(4 * 5.0)
    assert found.p_value == pytest.approx(stats.chi2.sf(20, 3))
    assert uniformity_test([scores], coin) is None  # 20 tokens are too few for 50 bins
