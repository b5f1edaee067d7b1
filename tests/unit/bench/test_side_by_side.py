"""Arms are paired by seed and told apart by what they did."""

from tests.support.tabular_engine import make_engine

from leeway.backends.tabular import random_table
from leeway.bench.side_by_side import Arm, compare
from leeway.core.types import Acceptance, SamplingParams
from leeway.llm import LLM

TABLE, DRAFT_TABLE = (random_table(3, 1, seed=seed) for seed in (1, 2))
ARMS = (
    Arm("plain", Acceptance("rejection"), num_speculative_tokens=0),
    Arm("rejection", Acceptance("rejection")),
    Arm("typical", Acceptance("typical", {"delta": 0.3})),
)


def tabular_llm():
    return LLM.from_engine(make_engine(TABLE, drafter="draft_model", draft_table=DRAFT_TABLE))


def results(**limits):
    sampling = SamplingParams(max_tokens=16, seed=99)
    return compare(tabular_llm(), (0, 1), ARMS, sampling, **limits)


def test_each_arm_runs_once_a_seed():
    seeds = []
    found = results(max_rounds=4, time_limit_s=60.0, on_round=seeds.append)
    assert seeds == [1, 2, 3, 4]
    plain, exact, typical = found
    for result in found:
        result.tally.check()
        assert result.tally.num_output_tokens == 4 * 16
        assert result.tokens_per_s.n == result.plain_ratio.n == 4
        assert result.receipt.seed == 1 and len(result.text) == 16
    assert plain.plain_ratio.least == plain.plain_ratio.most == 1.0
    assert plain.tally.num_draft_tokens == 0 < exact.tally.num_draft_tokens
    assert exact.tally.loss()["total_variation_mean"] == 0 < typical.tally.loss_tv_sum
    for result in found:
        pairs = zip(result.speeds, plain.speeds, strict=True)
        assert result.ratios == [speed / base for speed, base in pairs]


def test_a_spent_time_limit_still_leaves_two_seeds():
    assert [result.tokens_per_s.n for result in results(max_rounds=5, time_limit_s=0.0)] == [2] * 3


def test_same_seeds_give_the_same_texts():
    first, second = (results(max_rounds=2, time_limit_s=0.0) for _ in range(2))
    assert [one.text for one in first] == [one.text for one in second]
