"""The log line of a lossy request: prefix by law, and every number of the receipt."""

from dataclasses import replace

import pytest

from leeway.acceptance.base import Guarantee
from leeway.acceptance.registry import law_infos
from leeway.core.limits import Limits
from leeway.core.receipt import Receipt, Tally
from leeway.engine.log_line import is_lossy, lossy_log_line


def receipt(law="typical", guarantee="none", options=None, tally=None):
    return Receipt(
        law=law,
        options=options if options is not None else {"delta": 0.3, "eps": 1.0, "off_set": "redraw"},
        guarantee=guarantee,
        verifier="token",
        drafter="ngram",
        num_speculative_tokens=3,
        seed=1,
        temperature=1.0,
        tally=tally or Tally(),
        per_step=(),
    )


def test_the_whole_line():
    tally = Tally()
    tally.add_step(0, 0)
    tally.add_step(3, 3)
    tally.add_step(3, 1)
    tally.num_deferred = 2
    tally.num_output_tokens = 7
    tally.draft_tv_sum, tally.target_entropy_sum = 1.25, 2.5
    tally.loss_tv_sum, tally.loss_tv_max = 0.5, 0.25
    tally.loss_kl_sum, tally.loss_kl_max = 0.25, 0.125
    assert lossy_log_line(receipt(tally=tally), "r1") == (
        "[typical-accept] NOT distribution-exact; rule=typical threshold=0.3 "
        "options=delta=0.3,eps=1.0,off_set=redraw positions=5 accepted=4 deferred=2 resamples=1 "
        "kept_draft_rate=0.8000 deferral_rate=0.4000 mean_divergence=0.2500 mean_entropy=0.5000 "
        "tokens_per_step=2.3333 accepted_by_depth=2/1/1 generated=7 verify_steps=3 "
        "loss_tv_mean=0.1000 loss_tv_max=0.2500 loss_kl_mean=0.0500 loss_kl_max=0.1250 "
        "outside_support=0 "
        "drafter=ngram request=r1"
    )


PREFIXES = {"typical": "[typical-accept]"} | dict.fromkeys(
    ("opt", "diff", "tokenv1", "tokenv2", "tokenv3"), "[cascade-accept]"
)


@pytest.mark.parametrize("info", law_infos(), ids=lambda info: info.name)
def test_prefix_of_every_law(info):
    line = lossy_log_line(receipt(info.name, options={}), "r1")
    prefix = PREFIXES.get(info.name, f"[law {info.name}]")
    assert line.startswith(f"{prefix} NOT distribution-exact; rule={info.name} threshold=none ")


@pytest.mark.parametrize(
    ("options", "threshold"),
    [
        ({"alpha": 0.5, "off_set": "pi"}, "0.5"),
        ({"rank": 3, "ratio": 0.1}, "0.1"),
        ({"budget": 0.1}, "0.1"),
        ({"off_set": "coin"}, "none"),
    ],
)
def test_the_threshold_is_the_knob_that_decides_what_is_kept(options, threshold):
    assert f" threshold={threshold} " in lossy_log_line(receipt("clip", options=options), "r")


def test_only_a_law_without_guarantee_is_lossy():
    assert [is_lossy(receipt(guarantee=one)) for one in Guarantee] == [
        one is Guarantee.NONE for one in Guarantee
    ]


def test_limits_are_named_where_something_was_to_be_spent():
    plain = receipt()
    assert "tv_spent" not in lossy_log_line(plain, "r1")
    limited = replace(plain, limits=Limits(tv_budget=0.5), tv_spent=0.25)
    assert "outside_support=0 tv_spent=0.2500 tv_budget=0.5000 drafter=" in lossy_log_line(
        limited, "r1"
    )
    prefixed = replace(plain, limits=Limits(exact_prefix=2), tv_spent=0.0)
    assert "tv_spent=0.0000 tv_budget=none" in lossy_log_line(prefixed, "r1")
