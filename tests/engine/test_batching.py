"""Many requests at once: each equals its answer alone; cancellation, failure, waiting, seeds."""

import numpy as np
import pytest
from tests.support.tabular_engine import ask, make_engine, run_all, text, token_ids

from leeway.backends.tabular import TabularBackend, random_table
from leeway.core.errors import BackendError, CapacityError, LawError, RequestError
from leeway.core.types import Acceptance, FinishReason, Request, SamplingParams

VOCAB = 5
TABLE = random_table(VOCAB, 2, seed=1)
DRAFT_TABLE = random_table(VOCAB, 2, seed=2)
LAWS = [
    Acceptance("rejection"),
    Acceptance("sample_match"),
    Acceptance("block"),
    Acceptance("greedy_match"),
    Acceptance("typical", {"delta": 0.4}),
    Acceptance("tokenv3", {"alpha": 0.5}),
    Acceptance("tv_budget", {"budget": 0.2}),
]
SAMPLINGS = [
    {"temperature": 1.0},
    {"temperature": 0.0},
    {"temperature": 0.8, "top_k": 3, "top_p": 0.9},
    {"frequency_penalty": 0.8, "logit_bias": {2: -3.0}},
]


def engine_for(drafter="draft_model", acceptance=None, **options):
    options = {"order": 2, "context_len": 64, "capacity_tokens": 512} | options
    return make_engine(
        TABLE, drafter=drafter, draft_table=DRAFT_TABLE, acceptance=acceptance, **options
    )


def requests_of(sampling, count=6):
    prompts = [(0,), (1, 2, 3), (4,) * 9, (2, 1, 2, 1, 2), (3, 3), (0, 4, 1, 0, 4, 1, 0)]
    return [
        ask(prompts[index], name=f"r{index}", max_tokens=7 + index, seed=index, **sampling)
        for index in range(count)
    ]


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
@pytest.mark.parametrize("acceptance", LAWS, ids=lambda one: one.law)
@pytest.mark.parametrize("drafter", ["none", "ngram", "draft_model"])
def test_t17_a_batch_equals_singles(drafter, acceptance, sampling):
    requests = requests_of(sampling)
    together = run_all(engine_for(drafter, acceptance), *requests)
    for request in requests:
        alone = run_all(engine_for(drafter, acceptance), request)[request.request_id]
        shared = together[request.request_id]
        assert token_ids(alone) == token_ids(shared)
        assert text(alone) == text(shared)
        counts = [one[-1].receipt.tally.counts() for one in (alone, shared)]
        assert counts[0] == counts[1] | {"cached_tokens": 0}


@pytest.mark.parametrize("drafter", ["none", "ngram", "draft_model"])
@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_no_law_set_equals_law_rejection(drafter, sampling):
    request = requests_of(sampling, 2)[1]
    unset = run_all(engine_for(drafter), request)
    named = run_all(engine_for(drafter, Acceptance("rejection")), request)
    assert token_ids(unset["r1"]) == token_ids(named["r1"])


@pytest.mark.parametrize("acceptance", LAWS, ids=lambda one: one.law)
@pytest.mark.parametrize("drafter", ["ngram", "draft_model"])
@pytest.mark.parametrize("num_speculative_tokens", [1, 2, 5])
def test_t01_greedy_ids_equal_plain_decoding(acceptance, drafter, num_speculative_tokens):
    for request in requests_of({"temperature": 0.0}):
        plain = run_all(engine_for("none"), request)[request.request_id]
        engine = engine_for(drafter, acceptance, num_speculative_tokens=num_speculative_tokens)
        drafted = run_all(engine, request)[request.request_id]
        assert token_ids(plain) == token_ids(drafted)


@pytest.mark.parametrize("drafter", ["ngram", "draft_model"])
def test_t03_sample_match_gives_the_very_stream_of_plain_decoding(drafter):
    for request in requests_of({"temperature": 1.0}):
        plain = run_all(engine_for("none"), request)[request.request_id]
        drafted = run_all(engine_for(drafter, Acceptance("sample_match")), request)
        assert token_ids(plain) == token_ids(drafted[request.request_id])


def test_a_lossy_law_at_temperature_zero_is_engaged_as_greedy_match():
    engine = engine_for(acceptance=Acceptance("tokenv3", {"alpha": 0.5}))
    receipt = run_all(engine, ask(max_tokens=5, temperature=0.0))["a"][-1].receipt
    assert receipt.law == "greedy_match" and receipt.requested_law == "tokenv3"
    assert receipt.guarantee == "exact_greedy"
    assert receipt.tally.loss_tv_max == 0


def test_a_preset_keeps_its_name_beside_the_law_that_it_stands_for():
    request = Request("a", (0,), SamplingParams(max_tokens=5), Acceptance("medusa"))
    receipt = run_all(engine_for(), request)["a"][-1].receipt
    assert (receipt.requested_law, receipt.law) == ("medusa", "typical")
    assert receipt.options["eps"] == 0.09


def test_raw_rows_act_at_temperature_zero_because_asked_to():
    options = {"alpha": 0.99, "rows": "raw", "off_set": "coin"}
    engine = engine_for(acceptance=Acceptance("tokenv3", options))
    receipt = run_all(engine, ask(max_tokens=20, temperature=0.0))["a"][-1].receipt
    assert receipt.law == "tokenv3" and receipt.tally.loss_tv_max > 0


def test_t03_seeds_decide_and_are_reported():
    engine = engine_for()
    request = ask(max_tokens=12, seed=7)
    first = run_all(engine, request)["a"]
    assert token_ids(first) == token_ids(run_all(engine, request)["a"])
    assert first[-1].receipt.seed == 7
    others = {token_ids(run_all(engine, ask(max_tokens=12, seed=seed))["a"]) for seed in range(8)}
    assert len(others) > 4
    unseeded = [run_all(engine, ask(max_tokens=12))["a"][-1].receipt.seed for _ in range(4)]
    assert len(set(unseeded)) == 4
    again = run_all(engine, ask(max_tokens=12, seed=unseeded[-1]))
    assert again["a"][-1].receipt.seed == unseeded[-1]


def test_t23_speculation_can_be_off_for_one_request():
    engine = engine_for()
    sampling = SamplingParams(max_tokens=9, seed=3)
    request = Request("a", (0, 1), sampling, num_speculative_tokens=0)
    receipt = run_all(engine, request)["a"][-1].receipt
    assert receipt.tally.num_draft_tokens == 0 and receipt.drafter == "none"
    assert receipt.tally.num_verify_steps == 9


def test_more_requests_than_places_wait_and_are_served():
    engine = engine_for(max_num_seqs=2, capacity_tokens=40)
    requests = requests_of({})
    answers = run_all(engine, *requests)
    for index, request in enumerate(requests):
        assert len(token_ids(answers[request.request_id])) == 7 + index
    status = engine.status()
    assert status["num_requests_running"] == status["num_requests_waiting"] == 0
    assert status["kv_reserved_tokens"] == 0 and engine.parts.backend.num_open() == 0


def test_t15_cancelling_frees_the_cache_and_leaves_others_alone():
    engine = engine_for(max_num_seqs=2)
    requests = requests_of({}, 3)
    for request in requests:
        engine.add(request)
    engine.step()
    assert engine.cancel("r0").finish_reason is FinishReason.CANCELLED
    assert engine.cancel("r2").finish_reason is FinishReason.CANCELLED
    assert engine.cancel("r2") is None
    assert engine.parts.backend.num_open() == 1
    rest = []
    while engine.has_work:
        rest += engine.step()
    alone = run_all(engine_for(), requests[1])["r1"]
    assert token_ids(rest) == token_ids(alone)[-len(token_ids(rest)) :]
    assert engine.parts.backend.num_open() == 0


class FailingBackend(TabularBackend):
    """Fails every forward that feeds token 3, as a whole; gives NaN logits behind token 4."""

    def forward(self, inputs):
        if any(3 in one.token_ids for one in inputs):
            raise BackendError("the runtime failed")
        output = super().forward(inputs)
        rows = [
            token_id
            for one in inputs
            for token_id in one.token_ids[len(one.token_ids) - one.num_logit_rows :]
        ]
        output.logits[[token_id == 4 for token_id in rows]] = np.nan
        return output


@pytest.mark.parametrize(("bad_token", "words"), [(3, "runtime failed"), (4, "not finite")])
def test_t21_a_fault_ends_its_own_request_only(monkeypatch, bad_token, words):
    monkeypatch.setattr("tests.support.tabular_engine.TabularBackend", FailingBackend)
    spared = {"logit_bias": {3: -100.0, 4: -100.0}, "seed": 5, "max_tokens": 9}
    good = [ask((0, 1), name="g0", **spared), ask((2,), name="g1", **spared)]
    bad = ask((1, bad_token), name="bad", max_tokens=9)
    engine = engine_for("none")
    answers = run_all(engine, good[0], bad, good[1])
    last = answers["bad"][-1]
    assert last.finish_reason is FinishReason.ERROR and words in last.error.message
    for request in good:
        alone = run_all(engine_for("none"), request)[request.request_id]
        assert token_ids(answers[request.request_id]) == token_ids(alone)
        assert len(token_ids(alone)) == 9
    assert engine.parts.backend.num_open() == 0 and not engine.has_work


def test_tokens_that_the_target_cannot_give_are_counted_not_averaged():
    table = {context: np.eye(VOCAB)[context[-1] if context else 0] for context in TABLE}
    acceptance = Acceptance("ensemble", {"weight": 0.5})
    engine = make_engine(
        table, order=2, drafter="draft_model", draft_table=DRAFT_TABLE, acceptance=acceptance
    )
    tally = run_all(engine, ask((2,), max_tokens=20, seed=1))["a"][-1].receipt.tally
    assert tally.num_outside_support == tally.num_decided > 0
    assert tally.loss_kl_sum == 0 and tally.loss()["kl_mean"] is None
    assert tally.loss_tv_sum > 0


def test_t19_receipts_add_up_to_the_totals():
    engine = engine_for(acceptance=Acceptance("typical", {"delta": 0.4}))
    answers = run_all(engine, *requests_of({}))
    tallies = [deltas[-1].receipt.tally for deltas in answers.values()]
    for tally in tallies:
        tally.check()
    total = engine.totals[("typical", "draft_model")]
    assert total.num_output_tokens == sum(tally.num_output_tokens for tally in tallies)
    assert total.num_deferred == sum(tally.num_deferred for tally in tallies)
    assert total.loss_tv_max == max(tally.loss_tv_max for tally in tallies)
    assert total.loss_tv_sum == pytest.approx(sum(tally.loss_tv_sum for tally in tallies))
    total.check()


@pytest.mark.parametrize("law", ["opt", "diff", "tokenv1"])
def test_laws_that_read_draft_rows_are_refused_with_point_mass_drafts(law):
    with pytest.raises(LawError, match="draft's own probabilities"):
        engine_for("ngram", Acceptance(law, {"alpha": 0.1}))
    engine_for("draft_model", Acceptance(law, {"alpha": 0.1}))


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (Request("a", ()), RequestError),
        (Request("a", (0, VOCAB)), RequestError),
        (Request("a", (-1,)), RequestError),
        (Request("a", (0,), SamplingParams(temperature=-1)), RequestError),
        (Request("a", (0,), num_speculative_tokens=4), RequestError),
        (Request("a", (0,), num_speculative_tokens=-1), RequestError),
        (Request("a", (0,), acceptance=Acceptance("typcal")), LawError),
        (Request("a", (0,) * 64), RequestError),
        (Request("a", (0,) * 30, SamplingParams(max_tokens=30)), CapacityError),
    ],
)
def test_what_cannot_run_is_refused_before_anything_starts(request_, error):
    engine = engine_for(capacity_tokens=40)
    with pytest.raises(error):
        engine.add(request_)
    assert not engine.has_work and engine.parts.backend.num_open() == 0


@pytest.mark.parametrize("drafter", ["ngram", "draft_model"])
def test_the_receipt_measures_distance_and_entropy_of_the_very_rows(drafter):
    """Order 0: every position has the same two rows, so the means are known."""
    target = {(): np.array([0.5, 0.3, 0.2, 0.0])}
    draft = {(): np.array([0.25, 0.25, 0.25, 0.25])}
    engine = make_engine(target, order=0, drafter=drafter, draft_table=draft)
    tally = run_all(engine, ask((0, 0, 0, 0), max_tokens=50, seed=2))["a"][-1].receipt.tally
    assert tally.num_decided > 10
    entropy = -sum(p * np.log(p) for p in (0.5, 0.3, 0.2))
    assert tally.rates()["mean_target_entropy"] == pytest.approx(entropy, abs=1e-12)
    mean_tv = tally.rates()["mean_draft_tv"]
    if drafter == "draft_model":
        assert mean_tv == pytest.approx(0.3, abs=1e-12)
    else:
        assert 0.5 - 1e-12 <= mean_tv < 0.8
