"""Deltas: the running answers of one HTTP request, one or several prompts, in order of arrival.

A task per prompt reads the service's stream, so that waiting can be bounded (keep-alive) without
losing a delta. Leaving the context closes every stream, which cancels what still runs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from types import TracebackType

from starlette.exceptions import HTTPException

from leeway.core.receipt import Receipt
from leeway.core.types import FinishReason, OutputDelta, Request
from leeway.server.service_protocol import Service


@dataclass(slots=True)
class Timing:
    """When things happened to one answer, in seconds of a monotonic clock.

    Attributes:
        received_at: the HTTP request was read.
        first_at: the first token arrived.
        last_at: the latest token arrived.
        gaps: seconds between deltas that carry tokens.
    """

    received_at: float
    first_at: float | None = None
    last_at: float | None = None
    gaps: list[float] = field(default_factory=list)

    def mark(self, now: float) -> None:
        """Note the arrival of tokens."""
        if self.last_at is None:
            self.first_at = now
        else:
            self.gaps.append(now - self.last_at)
        self.last_at = now


OnFinish = Callable[[Receipt, Timing, bool], None]
_Item = tuple[int, OutputDelta | BaseException]


class DeltaQueue:
    """Asynchronous context: runs the requests and hands out their deltas.

    Args:
        service: the engine's façade.
        requests: one for each prompt.
        on_finish: told of each answer that ended, with its receipt and whether it is whole.
        received_at: when the HTTP request was read.
    """

    def __init__(
        self,
        service: Service,
        requests: Sequence[Request],
        on_finish: OnFinish,
        received_at: float,
    ) -> None:
        self._service = service
        self._requests = requests
        self._on_finish = on_finish
        self._received_at = received_at
        self._queue: asyncio.Queue[_Item] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []
        self.num_running = len(requests)

    async def __aenter__(self) -> DeltaQueue:
        """Start every stream."""
        for index, request in enumerate(self._requests):
            self._tasks.append(asyncio.create_task(self._pump(index, request)))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close every stream and wait until it is closed."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def get(self, timeout_s: float | None = None) -> tuple[int, OutputDelta] | None:
        """Return the next delta with the index of its prompt; None when the time is up.

        Raises:
            LeewayError: the engine refused or failed the request.
            HTTPException: the request was cancelled from elsewhere.
        """
        try:
            async with asyncio.timeout(timeout_s):
                index, item = await self._queue.get()
        except TimeoutError:
            return None
        if isinstance(item, BaseException):
            raise item
        if item.finish_reason is not None:
            self.num_running -= 1
        return index, item

    async def _pump(self, index: int, request: Request) -> None:
        timing = Timing(self._received_at)
        try:
            async with aclosing(self._service.stream(request)) as deltas:
                async for delta in deltas:
                    if delta.token_ids:
                        timing.mark(time.monotonic())
                    self._queue.put_nowait((index, self._judge(delta, timing)))
                    if delta.finish_reason is not None:
                        return
            raise RuntimeError(f"the stream of request {request.request_id} ended too early")
        except Exception as error:  # any failure belongs to the reader of the queue
            self._queue.put_nowait((index, error))

    def _judge(self, delta: OutputDelta, timing: Timing) -> OutputDelta | BaseException:
        """Return the delta, or the error that it stands for; report what finished."""
        if delta.receipt is not None:
            is_whole = delta.finish_reason in (FinishReason.STOP, FinishReason.LENGTH)
            self._on_finish(delta.receipt, timing, is_whole)
        if delta.error is not None:
            return delta.error
        if delta.finish_reason is FinishReason.CANCELLED:
            return HTTPException(503, "the request was cancelled; the server may be stopping")
        return delta
