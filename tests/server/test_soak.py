"""Many clients at once over real sockets: answers, cancels, bad requests; nothing is left."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import httpx2
import pytest

from leeway.core.types import OutputDelta, Request, SamplingParams
from leeway.engine.engine import Engine
from leeway.engine.service import EngineService
from tests.server import soak
from tests.server.conftest import live_server, wait_until_ready
from tests.server.soak_requests import Said, make_orders, whole
from tests.server.soak_server import table_engine
from tests.support.loaded_engine import DRAFTERS, LAWS, alone, check_books, engine_of

NUM_CLIENTS, NUM_ROUNDS = 8, 9
TEXT = (0, 1, 2, 3, 3, 1, 0, 2, 2, 1, 3, 0, 1)


def request_of(client: int, round_: int) -> Request:
    number = client * NUM_ROUNDS + round_
    sampling = SamplingParams(
        temperature=0.0 if number % 2 else 0.9,
        seed=number % 6,
        max_tokens=8 + number % 20 if round_ else 40,
    )
    prompt = TEXT[: 4 + number % 10]
    return Request(f"{client}-{round_}", prompt, sampling, LAWS[number % len(LAWS)])


def body_of(request: Request) -> dict[str, object]:
    sampling = request.sampling
    assert request.acceptance is not None
    return {
        "prompt": list(request.prompt_token_ids),
        "temperature": sampling.temperature,
        "seed": sampling.seed,
        "max_tokens": sampling.max_tokens,
        "speculative": {"law": request.acceptance.law, **request.acceptance.options},
    }


def one_client(url: str, client: int) -> list[tuple[Request, str]]:
    """Ask in turn; some requests are left in the middle, some are wrong."""
    answers = []
    with httpx2.Client(base_url=url, timeout=60) as http:
        for round_ in range(NUM_ROUNDS):
            request = request_of(client, round_)
            body = body_of(request)
            if (client + round_) % 4 == 3:
                bad = http.post("/v1/completions", json={**body, "max_tokens": "many"})
                assert bad.status_code == 400
            if round_ and (client + round_) % 3 == 2:
                leaving = {**body, "stream": True, "max_tokens": 60}
                with http.stream("POST", "/v1/completions", json=leaving) as response:
                    next(response.iter_lines())
            answer = http.post("/v1/completions", json=body)
            assert answer.status_code == 200, answer.text
            answers.append((request, answer.json()["choices"][0]["text"]))
    return answers


def hold_first_step(service: EngineService, engine: Engine) -> None:
    """Wait for every client's first request, so that they are together however fast each is.

    Six run at once, of up to 53 tokens each, where there is room for 128: some are preempted.
    """
    step = engine.step

    def held() -> list[OutputDelta]:
        with service._wake:
            assert service._wake.wait_for(lambda: service.num_open == NUM_CLIENTS, timeout=60)
        engine.step = step
        return step()

    engine.step = held


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_t15_t17_t18_eight_clients_get_their_own_answers_and_leave_nothing(drafter):
    engine = engine_of(drafter, capacity_tokens=128, context_len=96, max_num_seqs=6)
    service = EngineService(lambda: engine)
    hold_first_step(service, engine)
    service.start()
    wait_until_ready(service)
    with live_server(service, allow_laws=("all",)) as url, ThreadPoolExecutor(NUM_CLIENTS) as pool:
        tasks = [pool.submit(one_client, url, client) for client in range(NUM_CLIENTS)]
        answers = [answer for task in tasks for answer in task.result()]
        service.stop()
    assert len(answers) == NUM_CLIENTS * NUM_ROUNDS
    for request, text in answers:
        assert text == alone(drafter, request, context_len=96).text
    tallies = engine.totals.values()
    assert sum(tally.num_preemptions for tally in tallies) > 0
    assert sum(tally.num_cached_tokens for tally in tallies) > 0
    check_books(engine)


def test_the_soak_that_takes_minutes_finds_nothing_wrong_in_a_moment():
    figures = soak.soak(0.5, num_orders=20)
    assert figures.is_good, figures.to_dict()
    assert figures.requests["answered"] == figures.compared["answers"] > 0
    assert figures.tokens > 0 and figures.server["leeway_generation_tokens_total"] > 0
    assert {*figures.resident_mib} == {"start", "middle", "end", "most"}


GOOD = soak.Figures(
    "table",
    1.0,
    8,
    tokens=1,
    compared={"answers": 1, "greedy": 1, "different": 0},
    resident_mib={"start": 50.0, "middle": 100.0, "end": 104.0, "most": 104.0},
    caches=[{"blocks": 2, "lost": 0}],
)


@pytest.mark.parametrize(
    ("fault", "is_good"),
    [
        ({}, True),
        ({"num_errors": 1}, False),
        ({"compared": {"answers": 1, "greedy": 0, "different": 1}}, False),
        ({"caches": [{"blocks": 2, "lost": 0}, {"blocks": 2, "lost": 1}]}, False),
        ({"caches": []}, False),
        ({"resident_mib": {"start": 50.0, "middle": 100.0, "end": 106.0}}, False),
        ({"tokens": 0}, False),
    ],
    ids=["good", "error", "different", "lost", "unseen", "growing", "silent"],
)
def test_what_makes_a_soak_bad(fault, is_good):
    assert replace(GOOD, **fault).is_good is is_good


def test_a_client_of_the_soak_sees_answers_that_differ():
    service = EngineService(table_engine)
    service.start()
    wait_until_ready(service)
    orders = make_orders(["abcdabcd"], "[a-c]{2}", 12, 20)
    with live_server(service, allow_laws=("all",)) as url:
        with httpx2.Client(base_url=url) as http:
            expected = [(order, whole(http, order)) for order in orders]
        wrong = [(order, Said(("x",), said.num_tokens)) for order, said in expected]
        seen = soak.Client(url, 1, wrong).run(time.monotonic())
        service.stop()
    assert len(seen.different) == seen.answered > 0 and seen.errors == []


def test_percentiles_are_of_the_nearest_rank():
    assert soak.percentiles([]) == {}
    assert soak.percentiles([3.0]) == {"p50": 3.0, "p90": 3.0, "p99": 3.0, "most": 3.0}
    values = [float(value) for value in range(200, 0, -1)]
    assert soak.percentiles(values) == {"p50": 100.0, "p90": 180.0, "p99": 198.0, "most": 200.0}
