"""Responses: an answer whole, or as server-sent events. A client that leaves cancels its requests.

Before anything is sent an error becomes a status; afterwards it becomes one event, and the stream
ends without the events that close a whole one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Mapping

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from leeway.core.errors import LeewayError
from leeway.core.types import OutputDelta
from leeway.server.answer_format import AnswerFormat
from leeway.server.deltas import DeltaQueue
from leeway.server.sse import KEEP_ALIVE

log = logging.getLogger("leeway")

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


class WholeAnswer:
    """Sends the answer when it is complete."""

    def __init__(self, deltas: DeltaQueue, shape: AnswerFormat, headers: Mapping[str, str]) -> None:
        self._deltas = deltas
        self._shape = shape
        self._headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run as an ASGI response."""
        await run_until_disconnect(receive, self._answer(scope, receive, send))

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._deltas as deltas:
            while deltas.num_running:
                item = await deltas.get()
                assert item is not None
                self._shape.outputs[item[0]].take(item[1])
        response = Response(
            self._shape.whole(), headers=self._headers, media_type="application/json"
        )
        await response(scope, receive, send)


class StreamedAnswer:
    """Sends each delta as it comes.

    Args:
        deltas: what runs.
        shape: turns it into events.
        headers: of the response, beside those of every stream.
        keep_alive_s: silence after which a comment is sent; the first one also sends the headers.
    """

    def __init__(
        self,
        deltas: DeltaQueue,
        shape: AnswerFormat,
        headers: Mapping[str, str],
        keep_alive_s: float,
    ) -> None:
        self._deltas = deltas
        self._shape = shape
        self._headers = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        self._keep_alive_s = keep_alive_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run as an ASGI response."""
        await run_until_disconnect(receive, self._answer(send))

    async def _answer(self, send: Send) -> None:
        async with self._deltas as deltas:
            first = await deltas.get(self._keep_alive_s)
            headers = [*_HEADERS, *self._headers]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            async for frames in self._frames(deltas, first):
                await send({"type": "http.response.body", "body": frames, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _frames(
        self, deltas: DeltaQueue, first: tuple[int, OutputDelta] | None
    ) -> AsyncIterator[bytes]:
        shape, item = self._shape, first
        opening = shape.opening()
        if opening:
            yield opening
        try:
            while True:
                yield KEEP_ALIVE if item is None else self._take(*item)
                if not deltas.num_running:
                    break
                item = await deltas.get(self._keep_alive_s)
        except Exception as error:  # the status is sent: the reader must learn of it here
            if not isinstance(error, LeewayError | HTTPException):
                log.error("a stream failed", exc_info=error)
            yield shape.error(error)
            return
        yield shape.closing()

    def _take(self, index: int, delta: OutputDelta) -> bytes:
        self._shape.outputs[index].take(delta)
        return self._shape.delta(index, delta)


async def run_until_disconnect(receive: Receive, work: Coroutine[None, None, None]) -> None:
    """Run the work; cancel it if the client leaves first. The body must have been read."""
    worker = asyncio.ensure_future(work)
    watcher = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait({worker, watcher}, return_when=asyncio.FIRST_COMPLETED)
        has_left = not worker.done()
    finally:
        worker.cancel()
        watcher.cancel()
        await asyncio.gather(worker, watcher, return_exceptions=True)
    if has_left:
        log.info("a client left; its requests are cancelled")
    else:
        worker.result()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
