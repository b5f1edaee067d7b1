"""The tail of the losses, against NumPy and against the receipt's own sums."""

import math

import numpy as np
import pytest
from tests.support.bench_arms import DRAFT_TABLE, TABLE
from tests.support.tabular_engine import ask, make_engine, run_all

from leeway.core.types import Acceptance
from leeway.quality.loss_meter import Losses, LossWatch, losses_of, total_losses


def test_by_hand():
    found = losses_of([0.0] * 98 + [0.1, 0.3])
    assert (found.num_positions, found.num_high, found.high_rate) == (100, 1, 0.01)
    assert found.tail == 0.1  # 99 of 100 do not exceed it
    assert found.counts == {"0": 98, "100": 1, "300": 1}
    assert losses_of([0.0] * 5).tail == 0.0
    assert Losses().tail is None and Losses().high_rate is None


def test_just_above_a_tenth_is_above_and_a_tenth_in_float32_is_not():
    assert losses_of([0.1001]).num_high == 1
    assert losses_of([float(np.float32(0.1))]).num_high == 1  # 0.10000000149
    assert losses_of([0.1 + 1e-12]).num_high == 0


def test_the_tail_is_the_quantile_rounded_up():
    values = np.random.default_rng(5).random(777)
    exact = sorted(values)[math.ceil(0.99 * 777) - 1]
    assert losses_of(values).tail == math.ceil(exact * 1000) / 1000


def test_parts_add_up():
    one, other = losses_of([0.2, 0.0]), losses_of([0.2, 0.05, 0.0])
    assert total_losses([one, other]) == losses_of([0.2, 0.0, 0.2, 0.05, 0.0])


@pytest.mark.parametrize(
    "acceptance", [Acceptance(), Acceptance("typical", {"delta": 0.2})], ids=["exact", "typical"]
)
def test_what_is_watched_is_what_the_receipt_sums(acceptance):
    engine = make_engine(TABLE, drafter="draft_model", draft_table=DRAFT_TABLE)
    watch = LossWatch()
    watched = watch.watching(engine)
    requests = [ask((0, 1), name, seed=3, max_tokens=40) for name in ("a", "b")]
    requests = [
        type(one)(one.request_id, one.prompt_token_ids, one.sampling, acceptance)
        for one in requests
    ]
    answers = run_all(watched, *requests)
    run_all(watched, ask((0, 1), "c", seed=3, max_tokens=40))
    for name, deltas in answers.items():
        tally = deltas[-1].receipt.tally
        found = watch.take(name)
        assert found.num_positions == tally.num_decided > 0
        rebuilt = sum(int(step) * num for step, num in found.counts.items()) / 1000
        assert rebuilt == pytest.approx(tally.loss_tv_sum, abs=1e-3 * found.num_positions)
        assert (found.tail > 0) == (acceptance.law == "typical")
        assert watch.take(name).num_positions == 0  # forgotten
    assert watch.take_all().num_positions > 0  # of the third
    assert watch.take_all() == Losses()
