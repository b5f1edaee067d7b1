"""Limits over HTTP, on a real engine over tables: under the server's own, told in the receipt."""

import msgspec
import pytest

from leeway.core.config import EngineConfig, ServerConfig
from leeway.core.limits import Limits
from leeway.engine.engine import Engine
from leeway.engine.service import EngineService
from leeway.server.app import create_app
from tests.server.conftest import frames, local_client, wait_until_ready
from tests.server.test_operations import samples, total_of
from tests.server.test_real_engine import fresh_engine

LOSSY = {"law": "ensemble", "weight": 0.2}
OWN = Limits(tv_budget=0.5, exact_prefix=2)


@pytest.fixture
def client(request):
    limits = getattr(request, "param", OWN)
    config = EngineConfig(num_speculative_tokens=3, limits=limits)
    service = EngineService(lambda: Engine(fresh_engine().parts, config))
    service.start()
    server = ServerConfig(engine=config, allow_laws=("all",))
    with local_client(create_app(service, server)) as client:
        wait_until_ready(service)
        yield client
        service.stop()


def post(client, speculative, **fields):
    body = {"prompt": "a", "max_tokens": 40, "seed": 5, "speculative": speculative, **fields}
    return client.post("/v1/completions", json=body)


def receipt(response):
    assert response.status_code == 200, response.text
    return response.json()["metrics"]["speculative_decoding"]


def test_the_servers_limits_hold_for_every_request(client):
    said = receipt(post(client, LOSSY))["limits"]
    assert said["tv_budget"] == said["tv_bound"] == 0.5
    assert said["exact_prefix"] == 2
    assert 0.4 < said["tv_spent"] <= 0.5


def test_a_request_may_be_tighter(client):
    metrics = receipt(post(client, {**LOSSY, "tv_budget": 0.1, "hard_support": True}))
    assert metrics["law"] == "ensemble"
    assert metrics["guarantee"] == "none"
    assert metrics["limits"] == {
        "tv_budget": 0.1,
        "tv_spent": pytest.approx(0.1, abs=1e-6),
        "tv_bound": 0.1,
        "exact_prefix": 2,
        "hard_support": True,
        "phase": "all",
    }
    assert metrics["loss"]["total_variation_max"] <= 0.1


def test_a_budget_of_nothing_gives_the_answer_of_the_exact_law(client):
    def texts(speculative):
        answers = [post(client, speculative, seed=seed).json() for seed in range(5, 10)]
        return [answer["choices"][0]["text"] for answer in answers]

    exact = texts({"law": "rejection"})
    assert texts({**LOSSY, "tv_budget": 0}) == exact
    assert texts(LOSSY) != exact
    assert receipt(post(client, {"law": "rejection"}))["limits"]["tv_bound"] == 0


def test_a_request_may_not_be_looser(client):
    response = post(client, {**LOSSY, "tv_budget": 0.6})
    assert response.status_code == 403
    error = response.json()["error"]
    assert (error["code"], error["param"]) == ("law_not_allowed", "speculative.tv_budget")
    assert "0 to 0.5 (the server's --tv-budget)" in error["message"]
    assert post(client, {**LOSSY, "exact_prefix": "x"}).status_code == 400


def test_a_greedy_law_beside_a_budget_is_refused(client):
    response = post(client, {"law": "greedy_match"})
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "invalid_law"
    assert receipt(post(client, {"law": "greedy_match"}, temperature=0))["limits"]["tv_spent"] == 0


@pytest.mark.parametrize("client", [Limits()], indirect=True)
def test_without_limits_nothing_is_said_of_them(client):
    assert receipt(post(client, LOSSY))["limits"] is None
    budget = receipt(post(client, {**LOSSY, "tv_budget": 0.3}))["limits"]
    assert budget["tv_bound"] == 0.3


def test_each_choice_and_each_stream_has_its_own_ledger(client):
    metrics = post(client, {**LOSSY, "tv_budget": 0.2}, n=2).json()["metrics"]
    spent = [one["limits"]["tv_spent"] for one in metrics["speculative_decoding_by_choice"]]
    assert spent == pytest.approx([0.2, 0.2], abs=1e-6)
    stream = {"stream": True, "stream_options": {"include_usage": True}}
    chunks = frames(post(client, {**LOSSY, "tv_budget": 0.2}, **stream).text)
    last = msgspec.json.decode(chunks[-2])
    assert last["metrics"]["speculative_decoding"]["limits"]["tv_spent"] == pytest.approx(0.2)


def test_metrics_count_what_limits_left_and_what_was_spent(client):
    receipts = [
        receipt(post(client, {**LOSSY, "tv_budget": budget}, seed=index))["limits"]
        for index, budget in enumerate((0.1, 0.2))
    ]
    receipts.append(receipt(post(client, {**LOSSY, "hard_support": True}))["limits"])
    receipt(post(client, {"law": "rejection"}))
    found = samples(client)
    spent = sum(one["tv_spent"] for one in receipts)
    labels = {"law": "ensemble", "drafter": "draft_model"}
    assert 0.3 < spent <= 0.8
    assert total_of(found, "tv_spent_total", **labels) == pytest.approx(spent)
    assert total_of(found, "tv_budget_total", **labels) == pytest.approx(0.1 + 0.2 + 0.5)
    by_limit = {
        name: total_of(found, "limited_requests_total", limit=name, **labels)
        for name in ("tv_budget", "exact_prefix", "hard_support", "phase")
    }
    assert by_limit == {"tv_budget": 3, "exact_prefix": 3, "hard_support": 1, "phase": 0}
    assert total_of(found, "tv_spent_total", law="rejection") == 0
    assert total_of(found, "limited_requests_total") == 7
