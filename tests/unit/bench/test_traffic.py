"""Load: when requests go out, and every figure of what came back by hand."""

import itertools
import math
import random
import threading

import pytest
from tests.support.openai_server import answer, fake_server

from leeway.bench.http_stream import Answer, ask
from leeway.bench.traffic import (
    Reply,
    closed_loop,
    open_loop,
    percentile,
    poisson_times,
    reply_to_json,
    summarise_level,
)


def made(*chunk_s, end_s=None, tokens=None, error=None):
    used = None if tokens is None else {"completion_tokens": tokens}
    end = end_s if end_s is not None else (chunk_s[-1] if chunk_s else 0.0)
    return Answer("x", chunk_s, end, None if error else "stop", used, {}, 200, error)


@pytest.mark.parametrize(
    ("percent", "value"), [(0, 10), (20, 10), (50, 30), (60, 30), (61, 40), (99, 50), (100, 50)]
)
def test_a_percentile_is_one_of_the_values(percent, value):
    assert percentile([50, 20, 10, 40, 30], percent) == value
    assert percentile([], percent) is None


def test_arrivals_are_known_answers_of_their_seed():
    draws = random.Random(7)
    first, second = (-math.log(1 - draws.random()) / 2.0 for _ in range(2))
    assert poisson_times(2.0, 3, 7) == [0.0, first, first + second]
    assert poisson_times(2.0, 3, 7) == poisson_times(2.0, 3, 7) != poisson_times(2.0, 3, 8)
    assert poisson_times(4.0, 3, 7)[1:] == pytest.approx([first / 2, (first + second) / 2])
    assert poisson_times(2.0, 0, 7) == []


def test_gaps_of_arrivals_are_exponential():
    rate, num = 5.0, 20001
    times = poisson_times(rate, num, 1)
    gaps = [b - a for a, b in itertools.pairwise(times)]
    mean = sum(gaps) / len(gaps)
    assert mean == pytest.approx(1 / rate, rel=0.03)  # four standard errors at this seed
    assert sum(gap > 1 / rate for gap in gaps) / len(gaps) == pytest.approx(math.exp(-1), abs=0.015)


def test_every_figure_of_a_level():
    replies = [
        Reply(0, 0.0, 0.0, made(1.0, 2.0, 3.0, end_s=3.0, tokens=5)),
        Reply(1, 1.0, 1.5, made(0.5, 1.5, end_s=2.5, tokens=3)),
        Reply(2, 2.0, 2.0, made(6.0, end_s=6.0, tokens=1)),
        Reply(3, 2.5, 2.5, made(error="HTTP 500: busy", end_s=0.5)),
        Reply(4, 3.0, 3.0, made(0.5, error="HTTP 500: busy", end_s=1.0)),
    ]
    one = summarise_level("2 clients", replies)
    assert (one.num_requests, one.num_whole, one.wall_s) == (5, 3, 8.0)
    assert one.requests_per_s == 3 / 8 and one.tokens_per_s == 9 / 8
    assert one.ttft_s == {"p50": 1.0, "p90": 6.0, "p99": 6.0}
    assert one.tpot_s == {"p50": 0.5, "p90": 1.0, "p99": 1.0}
    assert one.end_to_end_s == {"p50": 3.0, "p90": 6.0, "p99": 6.0}
    assert one.late_s == 0.5 and one.errors == {"HTTP 500: busy": 2}
    assert reply_to_json(replies[3])["error"] == "HTTP 500: busy"


def test_what_was_not_counted_is_absent():
    one = summarise_level("1 client", [Reply(0, 0.0, 0.0, made(1.0, 2.0))])
    assert one.tokens_per_s is None and one.tpot_s["p50"] is None
    assert one.requests_per_s == 0.5 and one.ttft_s["p50"] == 1.0
    none = summarise_level("1 client", [Reply(0, 0.0, 0.0, made(error="gone"))])
    assert none.requests_per_s is None and none.end_to_end_s["p99"] is None
    assert summarise_level("1 client", []).num_requests == 0


@pytest.mark.parametrize("concurrency", [1, 3])
def test_a_closed_loop_keeps_exactly_so_many_running(concurrency):
    gate = threading.Barrier(concurrency)

    def respond(body):
        gate.wait(10)  # passes only when all clients ask at once
        return 200, answer("a")

    with fake_server(respond) as server:
        replies = closed_loop(
            lambda _: ask(server.url + "/completions", b"{}"), 2 * concurrency, concurrency
        )
    assert server.most_at_once == concurrency
    assert [one.index for one in replies] == list(range(2 * concurrency))
    assert not any(one.answer.error for one in replies)
    assert all(one.due_s == one.began_s for one in replies)


def test_an_open_loop_does_not_wait_for_answers():
    together = threading.Barrier(3)
    slept = []

    def reply(_):
        together.wait(10)  # passes only when all three run at once
        return made(0.25)

    replies = open_loop(reply, [0.0, 100.0, 200.0], now=lambda: 0.0, sleep=slept.append)
    assert slept == [100.0, 200.0]
    assert [one.due_s for one in replies] == [0.0, 100.0, 200.0]


def test_failures_do_not_end_a_run():
    answers = [made(0.5), made(error="gone"), made(0.5)]
    replies = closed_loop(lambda index: answers[index], 3, 2)
    assert summarise_level("2 clients", replies).errors == {"gone": 1}
