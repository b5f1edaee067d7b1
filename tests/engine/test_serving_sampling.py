"""What sampling fields do under speculation, for every law with every drafter.

Exact laws are enumerated: the joint law of whole answers equals plain decoding's. At temperature 0
the tokens themselves are equal, under every law.
"""

import numpy as np
import pytest
from tests.engine.test_served_law import distance
from tests.support.enumerate_coins import enumerate_outcomes
from tests.support.serving_cases import SERVED, SERVED_EXACT, case_label, serve
from tests.support.tabular_engine import ask, run_all, token_ids

from leeway.backends.tabular import random_table
from leeway.core.types import Acceptance, Request, SamplingParams

TABLE, DRAFT_TABLE = random_table(4, 1, seed=41), random_table(4, 1, seed=42)
PROMPT = (0, 1, 2, 3, 0, 1, 2, 3, 0, 1)
every_law = pytest.mark.parametrize(("law", "drafter"), SERVED, ids=case_label)
FIELDS = {
    "t10-frequency": {"frequency_penalty": 1.5},
    "t10-presence": {"presence_penalty": 1.5},
    "t10-repetition": {"repetition_penalty": 1.7},
    "t11-bias": {"logit_bias": {0: -2.0, 1: 1.0}},
    "t11-min-p": {"min_p": 0.4},
    "t11-top-p": {"top_p": 0.7},
    "t11-top-k": {"top_k": 1},
    "t08-min-tokens": {"min_tokens": 3, "stop_token_ids": (1,)},
}
each_field = pytest.mark.parametrize("name", FIELDS)


def looping_table(seed):
    """Every row gives most to token 0."""
    rows = random_table(2, 1, seed=seed)
    return {context: 0.3 * row + 0.7 * np.eye(2)[0] for context, row in rows.items()}


@each_field
@pytest.mark.parametrize(("law", "drafter"), SERVED_EXACT, ids=case_label)
def test_t10_t11_exact_laws_sample_as_plain_decoding_does(law, drafter, name):
    table, draft_table, sampling = looping_table(1), looping_table(2), FIELDS[name]
    max_tokens = 4 if drafter == "draft_model" else 5

    def law_of(law, drafter, **fields):
        def run(coins):
            engine = serve(
                law,
                drafter,
                table,
                draft_table,
                num_speculative_tokens=2,
                make_coins=lambda _: coins,
            )
            one = ask((0, 1, 0), max_tokens=max_tokens, seed=0, **fields)
            return token_ids(run_all(engine, one)["a"])

        return enumerate_outcomes(run)

    plain = law_of(Acceptance(), "none", **sampling)
    assert distance(plain, law_of(law, drafter, **sampling)) < 1e-12
    untouched = law_of(Acceptance(), "none")
    assert distance(plain, untouched) > 0.005


def make(law, drafter, **options):
    return serve(law, drafter, TABLE, DRAFT_TABLE, **options)


def request(name="a", prompt=PROMPT, num_speculative_tokens=None, **sampling):
    params = SamplingParams(**{"max_tokens": 24, **sampling})
    return Request(name, prompt, params, None, num_speculative_tokens)


def ids_of(engine, *args, **sampling):
    one = request(*args, **sampling)
    return token_ids(run_all(engine, one)[one.request_id])


@every_law
def test_t01_t10_t11_at_temperature_0_every_law_decodes_plainly(law, drafter):
    requests = [request(name, temperature=0.0, **fields) for name, fields in FIELDS.items()]
    plain = run_all(make(Acceptance(), "none"), *requests)
    drafted = run_all(make(law, drafter), *requests)
    for name, deltas in drafted.items():
        assert token_ids(deltas) == token_ids(plain[name]), name
    assert len({token_ids(deltas) for deltas in drafted.values()}) > 3


@every_law
def test_t03_t17_the_same_seed_gives_the_same_tokens_alone_and_among_others(law, drafter):
    alone = [ids_of(make(law, drafter), seed=seed) for seed in range(4)]
    assert len(set(alone)) == 4
    others = [request(f"r{seed}", seed=seed) for seed in range(4)]
    strangers = [request(f"s{i}", (3, 2, 1) * (i + 1), seed=9 + i) for i in range(3)]
    found = run_all(make(law, drafter), *strangers, *others)
    assert [token_ids(found[f"r{seed}"]) for seed in range(4)] == alone


@every_law
def test_t03_without_a_seed_answers_differ_and_name_the_one_drawn(law, drafter):
    engine = make(law, drafter)
    found = run_all(engine, request("a"), request("b"))
    seeds = [found[name][-1].receipt.seed for name in "ab"]
    assert seeds[0] != seeds[1]
    for name, seed in zip("ab", seeds, strict=True):
        assert ids_of(make(law, drafter), seed=seed) == token_ids(found[name])


@every_law
def test_t19_the_receipts_numbers_add_up(law, drafter):
    for seed in range(6):
        deltas = run_all(make(law, drafter), request(seed=seed))["a"]
        receipt = deltas[-1].receipt
        tally = receipt.tally
        tally.check()
        assert tally.num_output_tokens == len(token_ids(deltas)) == 24
        assert 0 <= tally.num_accepted_tokens <= tally.num_draft_tokens
        assert tally.num_prompt_tokens == len(PROMPT)
        assert tally.num_recovered_tokens + tally.num_bonus_tokens == tally.num_verify_steps
        assert all(accepted <= drafted <= 3 for drafted, accepted in receipt.per_step)
        assert all(len(delta.token_ids) <= 4 for delta in deltas)
        assert tally.accepted_by_depth == sorted(tally.accepted_by_depth, reverse=True)
        assert sum(tally.accepted_by_depth) == tally.num_accepted_tokens
        assert sum(tally.drafted_by_depth) == tally.num_draft_tokens


@every_law
def test_t23_speculation_can_be_switched_off_for_one_request(law, drafter):
    deltas = run_all(make(law, drafter), request("off", PROMPT, 0, seed=3))["off"]
    receipt = deltas[-1].receipt
    assert receipt.tally.num_draft_tokens == 0 and receipt.drafter == "none"
    assert receipt.tally.num_verify_steps == 24
    greedy = {"temperature": 0.0}
    off = ids_of(make(law, drafter), "off", PROMPT, 0, **greedy)
    assert off == ids_of(make(law, drafter), **greedy)
