"""Receipts: identities, rates, the contract's histogram, sums of a process."""

import pytest

from leeway.core.receipt import Receipt, Tally


def tally_of(*steps, deferred=0):
    tally = Tally()
    for drafted, accepted in steps:
        tally.add_step(drafted, accepted)
        tally.num_output_tokens += accepted + 1
    tally.num_deferred = deferred
    return tally


STEPS = ((0, 0), (3, 3), (3, 1), (2, 0), (3, 3))


def test_counts_and_identities():
    tally = tally_of(*STEPS, deferred=3)
    tally.check()
    counts = tally.counts()
    assert counts["verify_steps"] == 5
    assert counts["drafted"] == 11 and counts["accepted"] == 7
    assert counts["resampled"] == 2 and counts["bonus"] == 3
    assert counts["positions_decided"] == 9
    assert counts["accepted_by_depth"] == [3, 2, 2] and counts["drafted_by_depth"] == [4, 4, 3]
    rates = tally.rates()
    assert rates["draft_acceptance_rate"] == 7 / 11
    assert rates["deferral_rate"] == 3 / 9 and rates["kept_draft_rate"] == 7 / 9
    assert rates["tokens_per_verify_step"] == 12 / 5


@pytest.mark.parametrize("deferred", [1, 10])
def test_check_catches_impossible_deferrals(deferred):
    with pytest.raises(AssertionError):
        tally_of(*STEPS, deferred=deferred).check()


def test_nothing_counted_gives_none_not_zero():
    assert set(Tally().rates().values()) == {None}
    assert Tally().loss() == {
        "total_variation_mean": None,
        "total_variation_max": None,
        "kl_mean": None,
        "kl_max": None,
        "outside_support": 0,
    }


def test_positions_outside_the_support_are_counted_apart():
    tally = tally_of((3, 3), deferred=0)
    tally.loss_kl_sum, tally.loss_kl_max, tally.num_outside_support = 0.5, 0.5, 1
    assert tally.loss()["kl_mean"] == 0.25 and tally.loss()["outside_support"] == 1
    tally.num_outside_support = 3
    assert tally.loss()["kl_mean"] is None and tally.loss()["kl_max"] is None


def test_draft_distances_are_kept_by_depth():
    tally = Tally()
    for distances in ([0.5, 0.25], [0.5], [0.25, 0.25, 0.125]):
        tally.add_draft_tv(distances)
    assert tally.decided_by_depth == [3, 2, 1]
    assert tally.draft_tv_by_depth == [1.25, 0.5, 0.125]
    assert tally.draft_tv_sum == 1.875


def test_adding_tallies_adds_every_field():
    one, two = tally_of((3, 3), (3, 1), deferred=1), tally_of((5, 2), deferred=2)
    one.loss_tv_max, two.loss_tv_max = 0.1, 0.3
    both = Tally()
    both.add(one)
    both.add(two)
    expected = tally_of((3, 3), (3, 1), (5, 2), deferred=3)
    expected.loss_tv_max = 0.3
    assert both == expected


def test_contract_metrics():
    receipt = Receipt(
        law="typical",
        options={"delta": 0.3},
        guarantee="none",
        verifier="token",
        drafter="ngram",
        num_speculative_tokens=3,
        seed=1,
        temperature=1.0,
        tally=tally_of(*STEPS, deferred=3),
        per_step=STEPS,
    )
    metrics = receipt.speculative_metrics(detailed=True)
    assert metrics["mean_acceptance_length"] == 1 + 7 / 4
    assert metrics["acceptance_histogram"] == [1, 1, 0, 2]
    assert metrics["acceptance_histogram_by_draft_length"] == {"2": [1, 0, 0], "3": [0, 1, 0, 2]}
    assert metrics["num_spec_steps"] == 4 and metrics["num_spec_tokens"] == 3
    assert metrics["num_accepted_draft_tokens"] == 7 and metrics["num_draft_tokens"] == 11
    assert metrics["per_step_accepted"] == [3, 1, 0, 3]
    assert metrics["per_step_drafted"] == [3, 3, 2, 3]
    assert metrics["law"] == metrics["requested_law"] == "typical"
    assert "per_step_accepted" not in receipt.speculative_metrics()
