"""The queue of deltas: order, waiting, closing, and what is said of each answer that ends."""

import asyncio

import pytest
from starlette.exceptions import HTTPException
from tests.server.fake_service import REPLY, FakeService

from leeway.core.errors import BackendError
from leeway.core.types import FinishReason, OutputDelta, Request, SamplingParams
from leeway.server.deltas import DeltaQueue, Timing


def requests(*names):
    return [Request(name, (97,), SamplingParams(max_tokens=50)) for name in names]


def run(service, asked, work):
    ended = []

    async def scenario():
        queue = DeltaQueue(service, asked, lambda *told: ended.append(told), received_at=0.0)
        async with queue as deltas:
            return await work(deltas)

    return asyncio.run(scenario()), ended


async def drain(deltas):
    items = []
    while deltas.num_running:
        items.append(await deltas.get())
    return items


def test_deltas_of_each_prompt_in_order_and_each_end_is_told():
    items, ended = run(FakeService(), requests("a", "b"), drain)
    for index in (0, 1):
        assert "".join(delta.text for at, delta in items if at == index) == REPLY
    assert len(ended) == 2
    for receipt, timing, is_whole in ended:
        assert is_whole and len(timing.gaps) == receipt.tally.num_verify_steps - 1


def test_waiting_is_bounded_and_loses_nothing():
    service = FakeService()
    gate = asyncio.Semaphore(0)
    service.gate = lambda prompt: gate

    async def work(deltas):
        assert await deltas.get(0.01) is None
        assert await deltas.get(0.01) is None
        for _ in range(4):
            gate.release()
        return await drain(deltas)

    items, _ = run(service, requests("a"), work)
    assert "".join(delta.text for _, delta in items) == REPLY


def test_closing_early_closes_every_stream():
    service = FakeService()

    async def work(deltas):
        await deltas.get()

    _, ended = run(service, requests("a", "b"), work)
    assert sorted(service.closed) == ["a", "b"] and ended == []


def test_a_failure_is_raised_and_closes_the_others():
    service = FakeService()
    service.fail_after = 1
    with pytest.raises(BackendError, match="not finite"):
        run(service, requests("a", "b"), drain)
    assert service.engine.num_running == 0


class Ending(FakeService):
    """Ends every stream with one given delta, or with none."""

    def __init__(self, *deltas):
        super().__init__()
        self.deltas = deltas

    async def stream(self, request):
        for delta in self.deltas:
            yield delta


def last(reason, error=None):
    return OutputDelta("a", (), (), "", finish_reason=reason, error=error)


@pytest.mark.parametrize(
    ("service", "kind", "message"),
    [
        (Ending(last(FinishReason.CANCELLED)), HTTPException, "cancelled"),
        (Ending(last(FinishReason.ERROR, BackendError("nan"))), BackendError, "nan"),
        (Ending(), RuntimeError, "ended too early"),
    ],
)
def test_an_end_that_is_no_answer_is_an_error(service, kind, message):
    with pytest.raises(kind, match=message):
        run(service, requests("a"), drain)


def test_timing_keeps_first_last_and_gaps():
    timing = Timing(received_at=1.0)
    for now in (3.0, 3.5, 5.0):
        timing.mark(now)
    assert (timing.first_at, timing.last_at, timing.gaps) == (3.0, 5.0, [0.5, 1.5])
