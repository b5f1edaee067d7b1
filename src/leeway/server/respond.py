"""Responses: an answer whole, or as server-sent events. A client that leaves cancels its requests.

Before anything is sent an error becomes a status; afterwards it becomes one frame, and the stream
ends without [DONE].
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from leeway.core.errors import LeewayError
from leeway.core.types import OutputDelta
from leeway.server.answer_format import AnswerFormat, ChoiceOutput
from leeway.server.deltas import DeltaQueue
from leeway.server.errors import error_body

log = logging.getLogger("leeway")

KEEP_ALIVE = b": keep-alive\n\n"
DONE = b"data: [DONE]\n\n"
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


class WholeAnswer:
    """Sends the answer when it is complete."""

    def __init__(
        self, deltas: DeltaQueue, shape: AnswerFormat, outputs: list[ChoiceOutput]
    ) -> None:
        self._deltas = deltas
        self._shape = shape
        self._outputs = outputs

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run as an ASGI response."""
        await run_until_disconnect(receive, self._answer(scope, receive, send))

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._deltas as deltas:
            while deltas.num_running:
                item = await deltas.get()
                assert item is not None
                _take(self._outputs, *item)
        body = self._shape.whole(self._outputs)
        await Response(body, media_type="application/json")(scope, receive, send)


class StreamedAnswer:
    """Sends each delta as it comes.

    Args:
        keep_alive_s: silence after which a comment is sent; the first one also sends the headers.
    """

    def __init__(
        self,
        deltas: DeltaQueue,
        shape: AnswerFormat,
        outputs: list[ChoiceOutput],
        keep_alive_s: float,
    ) -> None:
        self._deltas = deltas
        self._shape = shape
        self._outputs = outputs
        self._keep_alive_s = keep_alive_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run as an ASGI response."""
        await run_until_disconnect(receive, self._answer(send))

    async def _answer(self, send: Send) -> None:
        async with self._deltas as deltas:
            first = await deltas.get(self._keep_alive_s)
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            async for frame in self._frames(deltas, first):
                await send({"type": "http.response.body", "body": frame, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _frames(
        self, deltas: DeltaQueue, first: tuple[int, OutputDelta] | None
    ) -> AsyncIterator[bytes]:
        shape, item = self._shape, first
        for index in range(len(self._outputs)):
            opening = shape.opening_choice(index)
            if opening is not None:
                yield _frame(shape.chunk(opening))
        try:
            while True:
                yield KEEP_ALIVE if item is None else self._delta_frames(*item)
                if not deltas.num_running:
                    break
                item = await deltas.get(self._keep_alive_s)
        except Exception as error:  # the status is sent: the reader must learn of it here
            yield _error_frame(error)
            return
        if shape.has_usage:
            yield _frame(shape.usage_chunk(self._outputs))
        yield DONE

    def _delta_frames(self, index: int, delta: OutputDelta) -> bytes:
        """Return the frames of one delta: its text, if any, then its end, if it is the last."""
        _take(self._outputs, index, delta)
        frames = b""
        if delta.text:
            frames += _frame(self._shape.chunk(self._shape.text_choice(index, delta.text)))
        if delta.finish_reason is not None:
            choice = self._shape.finish_choice(index, delta.finish_reason)
            frames += _frame(self._shape.chunk(choice))
        return frames


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


def _take(outputs: list[ChoiceOutput], index: int, delta: OutputDelta) -> None:
    output = outputs[index]
    output.texts.append(delta.text)
    output.output_len += len(delta.token_ids)
    output.finish_reason = delta.finish_reason
    output.receipt = delta.receipt


def _frame(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


def _error_frame(error: Exception) -> bytes:
    if not isinstance(error, LeewayError | HTTPException):
        log.error("a stream failed", exc_info=error)
    return _frame(msgspec.json.encode(error_body(error)[1]))
