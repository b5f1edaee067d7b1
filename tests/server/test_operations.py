"""GET /health, /metrics, /version, /v1/models."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from leeway.acceptance.registry import build_law
from leeway.core.config import EngineConfig
from leeway.core.config_values import Origin
from leeway.core.errors import ModelError
from leeway.core.receipt import Tally
from leeway.core.types import Acceptance
from tests.server.conftest import CHAT, client_of
from tests.server.fake_service import FakeService

LAWS = (
    {},
    {"law": "rejection", "num_speculative_tokens": 0},
    {"law": "typical", "delta": 0.3},
    {"law": "typical", "delta": 0.3, "num_speculative_tokens": 1},
    {"law": "opt", "alpha": 0.2},
    {"law": "tokenv3", "alpha": 0.5},
)


def used_client(service):
    client = client_of(service, allow_laws=("all",))
    for speculative in LAWS:
        for max_tokens in (3, 50):
            asked = {**CHAT, "max_tokens": max_tokens, "speculative": speculative}
            assert client.post("/v1/chat/completions", json=asked).status_code == 200
    return client


def samples(client):
    families = text_string_to_metric_families(client.get("/metrics").text)
    return [sample for family in families for sample in family.samples]


def total_of(all_samples, name, **labels):
    return sum(
        sample.value
        for sample in all_samples
        if sample.name == f"leeway_{name}" and labels.items() <= sample.labels.items()
    )


def sums(receipts):
    total = Tally()
    for receipt in receipts:
        total.add(receipt.tally)
    return {
        "spec_decode_num_drafts_total": total.num_spec_steps,
        "spec_decode_num_draft_tokens_total": total.num_draft_tokens,
        "spec_decode_num_accepted_tokens_total": total.num_accepted_tokens,
        "spec_decode_num_accepted_tokens_per_pos_total": total.num_accepted_tokens,
        "prompt_tokens_total": total.num_prompt_tokens,
        "generation_tokens_total": total.num_output_tokens,
        "verify_steps_total": total.num_verify_steps,
        "positions_decided_total": total.num_decided,
        "accepted_total": total.num_accepted_tokens,
        "deferred_total": total.num_deferred,
        "resampled_total": total.num_recovered_tokens,
        "bonus_total": total.num_bonus_tokens,
        "discarded_total": total.num_discarded_tokens,
        "draft_total_variation_total": total.draft_tv_sum,
        "loss_total_variation_total": total.loss_tv_sum,
        "loss_kl_total": total.loss_kl_sum,
        "target_entropy_total": total.target_entropy_sum,
        "loss_total_variation_max": total.loss_tv_max,
        "time_to_first_token_seconds_count": len(receipts),
        "e2e_request_latency_seconds_count": len(receipts),
        "inter_token_latency_seconds_count": total.num_verify_steps - len(receipts),
    }


def test_t19_counters_equal_the_sums_of_the_receipts(service):
    found = samples(used_client(service))
    keys = {(receipt.law, receipt.drafter) for receipt in service.receipts}
    assert len(keys) == 5
    for law, drafter in keys:
        own = [one for one in service.receipts if (one.law, one.drafter) == (law, drafter)]
        for name, expected in sums(own).items():
            assert total_of(found, name, law=law, drafter=drafter) == pytest.approx(expected), name


def test_accepted_by_position(service):
    found = samples(used_client(service))
    total = Tally()
    for receipt in service.receipts:
        total.add(receipt.tally)
    for position, count in enumerate(total.accepted_by_depth):
        name = "spec_decode_num_accepted_tokens_per_pos_total"
        assert total_of(found, name, position=str(position)) == count


def test_load_gauges_read_the_engine(client, service):
    service.engine.num_running = 2
    found = samples(client)
    assert total_of(found, "num_requests_running") == 2
    assert total_of(found, "num_requests_waiting") == 0
    assert total_of(found, "kv_cache_usage_perc") == 0.25


def test_metrics_before_the_engine_is_ready_have_no_samples_of_it():
    client = client_of(FakeService(state="loading"))
    assert client.get("/metrics").status_code == 200
    assert samples(client) == []


def test_every_application_has_a_registry_of_its_own():
    first, second = FakeService(), FakeService()
    used_client(first)
    assert total_of(samples(client_of(second)), "e2e_request_latency_seconds_count") == 0


def test_t22_health_while_loading_is_503_and_names_what_was_asked_for():
    acceptance = Acceptance("typical", {"delta": 0.3})
    config = EngineConfig(
        acceptance=acceptance,
        origins={"acceptance": Origin("flag", "--typical-threshold")},
    )
    response = client_of(FakeService(config, state="loading")).get("/health")
    assert response.status_code == 503
    body = response.json()
    assert body["status"] == "loading" and body["acceptance"]["installed"] is None
    assert body["acceptance"]["requested"] == {
        "law": "typical",
        "options": {"delta": 0.3},
        "origin": "--typical-threshold",
    }


def test_health_of_a_failed_engine_says_why():
    service = FakeService(state="failed")
    service.error = ModelError("truncated at byte 7")
    response = client_of(service).get("/health")
    assert response.status_code == 503
    assert response.json()["error"] == "truncated at byte 7"


@pytest.mark.parametrize(
    ("state", "live", "ready"),
    [
        ("loading", 200, 503),
        ("ready", 200, 200),
        ("draining", 200, 503),
        ("failed", 503, 503),
        ("stopped", 503, 503),
    ],
)
def test_liveness_asks_for_a_restart_only_where_one_would_help(state, live, ready):
    client = client_of(FakeService(state=state))
    answer = client.get("/health/live")
    assert (answer.status_code, answer.json()) == (live, {"status": state})
    assert client.get("/health").status_code == ready


def test_health_when_ready(client):
    response = client.get("/health")
    body = response.json()
    assert response.status_code == 200 and body["status"] == "ready"
    assert body["model"] == "scripted-model"
    assert body["acceptance"] == {
        "requested": {"law": "rejection", "options": {}, "origin": "default"},
        "installed": {
            "law": "rejection",
            "options": {},
            "guarantee": "exact_distribution",
            "verifier": "token",
        },
        "engaged": [],
        "allowed_per_request": ["block", "greedy_match", "rejection", "sample_match"],
        "limits": {
            "tv_budget": None,
            "exact_prefix": 0,
            "hard_support": False,
            "phase": "all",
            "phase_begin": "<think>",
            "phase_end": "</think>",
        },
    }
    assert body["drafter"] == {
        "requested": "auto",
        "engaged": "ngram",
        "num_speculative_tokens": 3,
        "draft_length": "fixed",
        "draft_temperature": 0.8,
    }
    assert body["backend"]["backend"] == "scripted"
    assert body["load"]["num_requests_running"] == 0
    for block in ("typical_acceptance", "cascade_acceptance"):
        assert body[block]["enabled"] is False and body[block]["positions_decided"] == 0


def test_health_tells_of_the_draft_head_in_use(service):
    service.engine.parts.drafter_settings = {"name": "a-head", "depth": 3}
    drafter = used_client(service).get("/health").json()["drafter"]
    assert drafter["head"] == {"name": "a-head", "depth": 3}


def test_health_names_what_engaged_with_the_receipts_numbers(service):
    body = used_client(service).get("/health").json()
    engaged = {(one["law"], one["drafter"]): one for one in body["acceptance"]["engaged"]}
    assert set(engaged) == {(one.law, one.drafter) for one in service.receipts}
    typical = engaged["typical", "ngram"]
    total = Tally()
    for receipt in service.receipts:
        if receipt.law == "typical":
            total.add(receipt.tally)
    expected = {**total.counts(), **total.rates(), "loss": total.loss(), "guarantee": "none"}
    assert expected.items() <= typical.items()
    assert expected.items() <= body["typical_acceptance"].items()
    cascades = [one for one in service.receipts if one.law in ("opt", "tokenv3")]
    decided = sum(one.tally.num_decided for one in cascades)
    assert body["cascade_acceptance"]["positions_decided"] == decided


@pytest.mark.parametrize(
    ("acceptance", "block", "rule", "other"),
    [
        (Acceptance("typical", {"delta": 0.3}), "typical_acceptance", "typical", "cascade"),
        (Acceptance("medusa"), "typical_acceptance", "typical", "cascade"),
        (Acceptance("opt", {"alpha": 0.2}), "cascade_acceptance", "opt", "typical"),
        (Acceptance("tokenv3", {"alpha": 0.0}), "cascade_acceptance", "tokenv3", "typical"),
    ],
)
def test_t22_the_block_of_the_configured_law_is_enabled_with_its_knobs(
    acceptance, block, rule, other
):
    body = client_of(FakeService(EngineConfig(acceptance=acceptance))).get("/health").json()
    law = build_law(acceptance)
    assert (body[block]["enabled"], body[block]["rule"]) == (True, rule)
    assert dict(law.options).items() <= body[block].items()
    assert body[block]["guarantee"] == "none"
    assert body[block]["note"].startswith("NOT distribution-exact: ")
    assert body[block]["allowed_per_request"] == [rule]
    assert body[f"{other}_acceptance"]["enabled"] is False
    assert body["acceptance"]["installed"]["law"] == rule


def test_models(client):
    (model,) = client.get("/v1/models").json()["data"]
    assert (model["id"], model["object"], model["max_model_len"]) == (
        "scripted-model",
        "model",
        200,
    )
    assert client.get("/v1/models/scripted-model").json() == model
    missing = client.get("/v1/models/org/other")
    assert missing.status_code == 404
    assert missing.json()["error"]["code"] == "model_not_found"


def test_version(client):
    assert client.get("/version").json() == {"version": client.get("/health").json()["version"]}
