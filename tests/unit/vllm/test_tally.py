"""Counts by label."""

import pytest
import torch
from tests.support.vllm_steps import LABEL, judged, law, plan_of, step_of, verdicts

from leeway.vllm.tally import Label, Tally, rates


def test_every_count_by_hand():
    tally = Tally(meter_every=1)
    inf = float("inf")
    losses = (
        torch.tensor([[0.1, 0.2, 0.0], [0.3, 0.0, 0.0]]),
        torch.tensor([[0.5, inf, 0.0], [0.25, 0.0, 0.0]]),
    )
    tally.add(LABEL, torch.tensor([3, 1]), verdicts(), losses)
    counts = tally.snapshot()[LABEL]
    assert counts == {
        "verify_steps": 2,
        "draft_tokens": 4,
        "positions_decided": 4,
        "accepted": 3,
        "deferred": 2,
        "resampled": 1,
        "loss_positions": 4,
        "loss_total_variation": pytest.approx(0.6),
        "loss_kl": pytest.approx(0.75),
        "outside_support": 1,
    }
    assert rates(counts) == {
        "draft_acceptance_rate": 0.75,
        "deferral_rate": 0.5,
        "kept_draft_rate": 0.75,
        "tokens_per_verify_step": 2.5,
        "loss_tv_mean": pytest.approx(0.15),
        "loss_kl_mean": pytest.approx(0.25),
    }


def test_sums_add_up_and_labels_stay_apart():
    tally = Tally(meter_every=1)
    other = Label("rejection", "exact_distribution", "rows")
    for label in (LABEL, other, LABEL):
        tally.add(label, torch.tensor([3, 1]), verdicts(), None)
    found = tally.snapshot()
    assert (found[LABEL]["accepted"], found[other]["accepted"]) == (6, 3)
    assert found[LABEL]["loss_positions"] == 0
    assert rates(found[LABEL])["loss_tv_mean"] is None


@pytest.mark.parametrize(
    ("every", "metered"),
    [(1, [True] * 4), (2, [True, False, True, False]), (0, [False] * 4)],
    ids=["all", "every other", "off"],
)
def test_how_often_the_loss_is_measured(every, metered):
    tally = Tally(every)
    found = []
    for _ in range(4):
        found.append(tally.is_metered(LABEL))
        tally.add(LABEL, torch.tensor([3, 1]), verdicts(), None)
    assert found == metered


def test_the_identities_hold_after_real_steps():
    tally = Tally(meter_every=1)
    rows = [[[0.4, 0.3, 0.2, 0.1]] * 3] * 50
    step = step_of(rows, [[0, 1, 3]] * 50, [0] * 50)
    plan = plan_of(*[(law("typical", delta=0.9, off_set="coin"), False, key) for key in range(50)])
    for _ in range(5):
        judged(step, plan, tally)
    (counts,) = tally.snapshot().values()
    assert counts["accepted"] + counts["resampled"] == counts["positions_decided"]
    assert 0 < counts["resampled"] <= counts["deferred"] <= counts["positions_decided"]
    assert counts["verify_steps"] == 250
    assert counts["loss_positions"] == counts["positions_decided"]
    assert 0 < counts["loss_total_variation"] < counts["loss_positions"]
