"""The engine's thread: streams, cancellation on close, refusal, failure, draining."""

import asyncio
import threading

import pytest
from tests.support.tabular_engine import ask, make_engine, run_all, text, token_ids

from leeway.backends.tabular import TabularBackend, random_table
from leeway.core.errors import (
    BackendError,
    ConfigError,
    QueueFullError,
    RequestError,
    RequestTimeoutError,
    UnavailableError,
)
from leeway.core.types import FinishReason
from leeway.engine.service import EngineService

TABLE = random_table(4, 1, seed=0)


def fresh_engine(**options):
    return make_engine(TABLE, drafter="ngram", context_len=4096, capacity_tokens=9000, **options)


async def wait_until(condition):
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.002)
    raise AssertionError("the condition never held")


async def ready(load=fresh_engine, **options):
    service = EngineService(load, **options)
    service.start()
    await wait_until(lambda: service.state != "loading")
    return service


async def collect(service, request):
    return [delta async for delta in service.stream(request)]


def test_concurrent_streams_equal_offline_answers():
    async def scenario():
        service = await ready()
        requests = [
            ask((0, index % 4), name=f"r{index}", max_tokens=20, seed=index) for index in range(5)
        ]
        streams = await asyncio.gather(*(collect(service, request) for request in requests))
        await asyncio.to_thread(service.stop)
        return requests, streams, service

    requests, streams, service = asyncio.run(scenario())
    assert service.state == "stopped"
    for request, deltas in zip(requests, streams, strict=True):
        offline = run_all(fresh_engine(), request)[request.request_id]
        assert token_ids(deltas) == token_ids(offline) and text(deltas) == text(offline)


def test_closing_a_stream_cancels_and_frees_within_a_step():
    async def scenario():
        service = await ready()
        for index in range(20):
            stream = service.stream(ask(name=f"r{index}", max_tokens=4000))
            await anext(stream)
            await stream.aclose()
        await wait_until(lambda: not service.engine.has_work)
        assert service.engine.parts.backend.num_open() == 0
        assert service.status()["num_requests_running"] == 0
        deltas = await collect(service, ask(name="after", max_tokens=5, seed=1))
        await asyncio.to_thread(service.stop)
        return deltas

    deltas = asyncio.run(scenario())
    offline = run_all(fresh_engine(), ask(name="after", max_tokens=5, seed=1))["after"]
    assert token_ids(deltas) == token_ids(offline)


def test_a_refused_request_raises_before_the_first_delta():
    async def scenario():
        service = await ready()
        with pytest.raises(RequestError, match="max_tokens"):
            await collect(service, ask(max_tokens=-1))
        await asyncio.to_thread(service.stop)

    asyncio.run(scenario())


def test_a_model_that_cannot_be_loaded_fails_with_its_own_error():
    def load():
        raise ConfigError("no such model")

    async def scenario():
        service = await ready(load)
        assert service.state == "failed" and service.status()["error"] == "no such model"
        with pytest.raises(ConfigError, match="no such model"):
            await collect(service, ask())
        await asyncio.to_thread(service.stop)

    asyncio.run(scenario())


def test_requests_while_loading_are_refused():
    gate = threading.Event()

    def load():
        gate.wait(10)
        return fresh_engine()

    async def scenario():
        service = EngineService(load)
        service.start()
        with pytest.raises(UnavailableError, match="loading"):
            await collect(service, ask())
        gate.set()
        await wait_until(lambda: service.state == "ready")
        await asyncio.to_thread(service.stop)

    asyncio.run(scenario())


class BrokenBackend(TabularBackend):
    def forward(self, inputs):
        raise ZeroDivisionError("a fault of ours")


def test_an_unforeseen_fault_ends_every_stream_with_an_error(monkeypatch, caplog):
    monkeypatch.setattr("tests.support.tabular_engine.TabularBackend", BrokenBackend)

    async def scenario():
        service = await ready()
        with pytest.raises(BackendError, match="a fault of ours"):
            await collect(service, ask())
        assert service.state == "failed"
        with pytest.raises(BackendError, match="a fault of ours"):
            await collect(service, ask())
        await asyncio.to_thread(service.stop)

    asyncio.run(scenario())
    assert "the engine failed" in caplog.text


def test_stopping_drains_what_is_running():
    async def scenario():
        service = await ready()
        task = asyncio.create_task(collect(service, ask(max_tokens=300)))
        await wait_until(lambda: service.engine.has_work)
        await asyncio.to_thread(service.stop)
        return await task

    deltas = asyncio.run(scenario())
    assert len(token_ids(deltas)) == 300


def test_stopping_without_patience_cancels():
    async def scenario():
        service = await ready()
        task = asyncio.create_task(collect(service, ask(max_tokens=4000)))
        await wait_until(lambda: service.engine.has_work)
        await asyncio.to_thread(service.stop, 0.0)
        return await task

    deltas = asyncio.run(scenario())
    assert deltas[-1].finish_reason is FinishReason.CANCELLED


@pytest.mark.parametrize("end", ["failed", "stopped"])
def test_a_request_that_arrives_as_the_engine_ends_is_refused_not_forgotten(end):
    """The end comes between the check of the request and its arrival."""

    async def scenario():
        service = await ready()
        check = service.engine.check

        def check_slowly(request):
            check(request)
            if end == "stopped":
                service.stop()
            else:
                service._give_up(BackendError("a fault of ours"))

        service.engine.check = check_slowly
        refusal = UnavailableError if end == "stopped" else BackendError
        with pytest.raises(refusal, match="stopped" if end == "stopped" else "a fault"):
            await asyncio.wait_for(collect(service, ask()), 5)
        await asyncio.to_thread(service.stop)

    asyncio.run(scenario())


def test_a_stopping_service_takes_no_new_request():
    async def scenario():
        service = await ready()
        task = asyncio.create_task(collect(service, ask(max_tokens=2000)))
        await wait_until(lambda: service.engine.has_work)
        stopping = asyncio.create_task(asyncio.to_thread(service.stop))
        await wait_until(lambda: service.state == "draining")
        with pytest.raises(UnavailableError, match="draining"):
            await collect(service, ask(name="late"))
        await stopping
        return await task

    assert len(token_ids(asyncio.run(scenario()))) == 2000


def test_a_draining_service_finishes_what_runs_and_what_waits():
    async def scenario():
        service = await ready(lambda: fresh_engine(max_num_seqs=1))
        requests = [ask(name=f"r{index}", max_tokens=200, seed=index) for index in range(3)]
        tasks = [asyncio.create_task(collect(service, request)) for request in requests]
        await wait_until(lambda: service.num_open == 3)
        service.drain()
        assert service.status()["state"] == "draining"
        answers = await asyncio.gather(*tasks)
        assert service.num_open == 0 and service.state == "draining"
        assert service.engine.status()["num_requests_running"] == 0
        await asyncio.to_thread(service.stop)
        return answers

    assert [len(token_ids(deltas)) for deltas in asyncio.run(scenario())] == [200] * 3


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.mark.parametrize(
    ("took_s", "retry_after_s"), [(0.5, 1), (7.0, 4), (10_000.0, 60), (None, 1)], ids=str
)
def test_more_than_may_wait_are_refused_and_told_when_to_come_back(took_s, retry_after_s):
    """Two run and one waits; the first one's time is the mean, shared by two places.

    A request that is cancelled says nothing of how long one takes.
    """
    clock = Clock()

    def load():
        engine = fresh_engine(max_num_seqs=2)
        step = engine.step

        def slow_step():
            deltas = step()
            if took_s is not None and any(one.request_id == "first" for one in deltas):
                clock.now += took_s
            return deltas

        engine.step = slow_step
        return engine

    async def scenario():
        service = await ready(load, max_num_waiting=1, now=clock)
        if took_s is not None:
            await collect(service, ask(name="first", max_tokens=1))
        stream = service.stream(ask(name="gone", max_tokens=4000))
        await anext(stream)
        clock.now += 1000.0
        await stream.aclose()
        await wait_until(lambda: service.num_open == 0)
        tasks = [
            asyncio.create_task(collect(service, ask(name=f"r{index}", max_tokens=4000)))
            for index in range(3)
        ]
        await wait_until(lambda: service.num_open == 3)
        with pytest.raises(QueueFullError, match=r"3 requests.*takes 2 and 1") as refused:
            await collect(service, ask(name="late"))
        service.cancel("r1")
        await tasks[1]
        assert len(await collect(service, ask(name="later", max_tokens=1))) == 1
        for request in ("r0", "r2"):
            service.cancel(request)
        await asyncio.gather(*tasks)
        await asyncio.to_thread(service.stop)
        service.engine.parts.backend.check_integrity()
        return refused.value

    error = asyncio.run(scenario())
    assert (error.http_status, error.retry_after_s) == (429, retry_after_s)


def test_a_request_whose_time_is_up_ends_with_an_error_and_frees_its_cache():
    clock = Clock()

    async def scenario():
        service = await ready(
            lambda: fresh_engine(max_num_seqs=1), request_timeout_s=2.5, now=clock
        )
        tasks = [
            asyncio.create_task(collect(service, ask(name=name, max_tokens=4000)))
            for name in ("running", "waiting")
        ]
        await wait_until(lambda: service.status()["num_requests_waiting"] == 1)
        clock.now += 2.0
        late = asyncio.create_task(collect(service, ask(name="late", max_tokens=3000)))
        await wait_until(lambda: service.num_open == 3)
        clock.now += 0.5
        for task in tasks:
            with pytest.raises(RequestTimeoutError, match=r"2\.5 s.*--request-timeout-s"):
                await task
        deltas = await late
        await asyncio.to_thread(service.stop)
        service.engine.parts.backend.check_integrity()
        assert service.engine.parts.backend.num_open() == 0
        return deltas

    assert len(token_ids(asyncio.run(scenario()))) == 3000


@pytest.mark.parametrize("what", ["decoding", "prefill", "waiting"])
def test_t15_a_client_that_leaves_frees_its_place_within_a_step(what):
    """Every step waits for a permit; the one that is on its way is the last of the request."""
    permits = threading.Semaphore(0)
    seen = []

    def load():
        engine = fresh_engine(max_num_seqs=1, prefill_chunk_len=4)
        step = engine.step

        def with_permit():
            seen.append(engine.request_ids())
            permits.acquire()
            return step()

        engine.step = with_permit
        return engine

    async def scenario():
        service, others = await ready(load), []
        if what == "waiting":
            others = [asyncio.create_task(collect(service, ask(name="other", max_tokens=40)))]
            await wait_until(lambda: len(seen) == 1)
        prompt = (1,) if what == "decoding" else (1,) * 100
        stream = service.stream(ask(prompt, name="gone", max_tokens=4000))
        first = asyncio.create_task(anext(stream))
        if what == "decoding":
            permits.release()
            await first
        await wait_until(lambda: len(seen) == 1 + (what == "decoding"))
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await stream.aclose()
        num_steps = len(seen)
        permits.release()
        await wait_until(lambda: service.num_open == len(others))
        permits.release(100)
        await asyncio.gather(*others)
        assert all("gone" not in names for names in seen[num_steps:])
        await asyncio.to_thread(service.stop)
        return service.engine.parts.backend

    backend = asyncio.run(scenario())
    backend.check_integrity()
    assert backend.num_open() == 0
