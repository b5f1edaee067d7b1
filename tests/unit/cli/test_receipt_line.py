"""The receipt in one line."""

from dataclasses import replace

from tests.support.tabular_engine import ask, make_engine, run_all

from leeway.backends.tabular import random_table
from leeway.cli.receipt_line import receipt_line
from leeway.core.limits import Limits
from leeway.core.types import Acceptance

TABLE, DRAFT_TABLE = (random_table(3, 1, seed=seed) for seed in (1, 2))


def receipt(**engine):
    deltas = run_all(make_engine(TABLE, **engine), ask(max_tokens=12, seed=7))
    return deltas["a"][-1].receipt


def test_plain_decoding():
    line = receipt_line(receipt())
    assert line.startswith("[receipt] law rejection; guarantee exact_distribution; 12 tokens; ")
    assert line.endswith("nothing drafted; seed 7")


def test_lossy_law():
    asked = Acceptance("typical", {"delta": 0.3})
    found = receipt(drafter="draft_model", draft_table=DRAFT_TABLE, acceptance=asked)
    line = receipt_line(found)
    loss = found.tally.loss()["total_variation_mean"]
    assert "law typical(delta=0.3, eps=1.0" in line and "guarantee none" in line
    assert f"loss TV {loss:.4f} mean" in line and loss > 0
    assert f"draft_acceptance_rate {found.tally.rates()['draft_acceptance_rate']:.3f}" in line


def test_a_law_that_did_not_act_is_told_from_the_one_asked_for():
    engine = make_engine(TABLE, acceptance=Acceptance("typical", {"delta": 0.3}))
    deltas = run_all(engine, ask(max_tokens=3, temperature=0.0))
    line = receipt_line(deltas["a"][-1].receipt)
    assert "law greedy_match (asked for typical)" in line


def test_what_a_limited_law_spent():
    law = Acceptance("ensemble", {"weight": 0.1})
    engine = make_engine(TABLE, drafter="draft_model", draft_table=DRAFT_TABLE, acceptance=law)
    request = ask(max_tokens=30, seed=7)
    limited = replace(request, limits=Limits(tv_budget=0.25))
    assert "; TV spent 0.2500 of tv_budget 0.25; seed 7" in receipt_line(
        run_all(engine, limited)["a"][-1].receipt
    )
    prefixed = run_all(engine, replace(request, limits=Limits(exact_prefix=30)))["a"][-1].receipt
    assert "; TV spent 0.0000; seed 7" in receipt_line(prefixed)
    assert "spent" not in receipt_line(run_all(engine, request)["a"][-1].receipt)
