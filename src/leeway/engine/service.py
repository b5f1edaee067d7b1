"""The engine on a thread of its own, with an asynchronous face.

In: requests from an event loop. Out: asynchronous streams of deltas. The thread loads the engine,
then steps it while there is work; only this thread changes it after that. Other threads may check
requests, and read `status` and `totals`, which are replaced whole and never changed. Closing a
stream early cancels its request within one step.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Callable
from typing import Any, Literal

from leeway.core.errors import BackendError, LeewayError
from leeway.core.types import FinishReason, OutputDelta, Request
from leeway.engine.engine import Engine

State = Literal["loading", "ready", "failed", "stopped"]
Sink = Callable[[OutputDelta], None]

logger = logging.getLogger("leeway")


class EngineService:
    """Runs one engine on one thread for many asynchronous callers."""

    def __init__(self, load: Callable[[], Engine]) -> None:
        """Take the function that loads the engine; it runs on the thread."""
        self.state: State = "loading"
        self.error: LeewayError | None = None
        self._load = load
        self._engine: Engine | None = None
        self._wake = threading.Condition()
        self._arrivals: list[tuple[Request, Sink]] = []
        self._cancellations: list[str] = []
        self._sinks: dict[str, Sink] = {}
        self._is_draining = False
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="leeway-engine", daemon=True)

    @property
    def engine(self) -> Engine:
        """The engine; only while ready."""
        assert self._engine is not None
        return self._engine

    def start(self) -> None:
        """Begin to load; returns at once."""
        self._thread.start()

    def stop(self, drain_timeout_s: float = 30.0) -> None:
        """Let running requests finish for so long, then cancel what is left and end the thread."""
        with self._wake:
            self._is_draining = True
            if self.state in ("loading", "ready"):
                idle = self.state == "loading" or self._wake.wait_for(
                    lambda: not self._sinks or self.state != "ready", drain_timeout_s
                )
                if not idle:
                    logger.warning("cancelled %d requests at shutdown", len(self._sinks))
            self._is_stopping = True
            self._wake.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    async def stream(self, request: Request) -> AsyncGenerator[OutputDelta, None]:
        """Yield the request's deltas; closing the iterator early cancels the request.

        Raises:
            LeewayError: the request is refused (before the first delta), or the engine failed.
        """
        self._refuse_unless_ready()
        self.engine.check(request)
        loop = asyncio.get_running_loop()
        deltas: asyncio.Queue[OutputDelta] = asyncio.Queue()

        def deliver(delta: OutputDelta) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(deltas.put_nowait, delta)

        with self._wake:
            self._refuse_unless_ready()
            self._arrivals.append((request, deliver))
            self._sinks[request.request_id] = deliver
            self._wake.notify_all()
        is_finished = False
        try:
            while not is_finished:
                delta = await deltas.get()
                is_finished = delta.finish_reason is not None
                if delta.error is not None:
                    raise delta.error
                yield delta
        finally:
            if not is_finished:
                self.cancel(request.request_id)

    def cancel(self, request_id: str) -> None:
        """End a request within one step; unknown requests are ignored."""
        with self._wake:
            self._cancellations.append(request_id)
            self._wake.notify_all()

    def status(self) -> dict[str, Any]:
        """Return state, and the engine's load and capacity once ready."""
        status: dict[str, Any] = {"state": self.state}
        if self.error is not None:
            status["error"] = self.error.message
        if self._engine is not None:
            status.update(self._engine.status())
        return status

    def _refuse_unless_ready(self) -> None:
        if self.state != "ready" or self._is_draining:
            state = "stopping" if self._is_draining else self.state
            raise self.error or BackendError(f"the engine is {state}; try again later")

    def _run(self) -> None:
        try:
            self._engine = self._load()
            self._enter("ready")
            while self._take_orders():
                for delta in self.engine.step():
                    self._deliver(delta)
        except LeewayError as error:
            self._give_up(error)
        except Exception as error:
            logger.exception("the engine failed")
            self._give_up(BackendError(f"the engine failed: {error}"))
        else:
            self._enter("stopped")
            self._cancel_all()

    def _enter(self, state: State, error: LeewayError | None = None) -> None:
        """Change state under the lock, so that no request arrives behind the last sweep."""
        with self._wake:
            self.state, self.error = state, error
            self._wake.notify_all()

    def _take_orders(self) -> bool:
        """Wait for work, hand it to the engine; return False when it is time to stop."""
        with self._wake:
            self._wake.wait_for(
                lambda: (
                    self._arrivals
                    or self._cancellations
                    or self._is_stopping
                    or self.engine.has_work
                )
            )
            if self._is_stopping:
                return False
            arrivals, self._arrivals = self._arrivals, []
            cancellations, self._cancellations = self._cancellations, []
        for request, _ in arrivals:
            self.engine.add(request)
        for request_id in cancellations:
            delta = self.engine.cancel(request_id)
            if delta is not None:
                self._deliver(delta)
        return True

    def _deliver(self, delta: OutputDelta) -> None:
        sink = self._sinks[delta.request_id]
        if delta.finish_reason is not None:
            with self._wake:
                del self._sinks[delta.request_id]
                self._wake.notify_all()
        sink(delta)

    def _cancel_all(self) -> None:
        for request_id in list(self._sinks):
            delta = self.engine.cancel(request_id)
            if delta is None:
                delta = OutputDelta(request_id, (), (), "", FinishReason.CANCELLED)
            self._deliver(delta)

    def _give_up(self, error: LeewayError) -> None:
        """Fail every request; later ones are refused with the same error."""
        self._enter("failed", error)
        for request_id in list(self._sinks):
            self._deliver(OutputDelta(request_id, (), (), "", FinishReason.ERROR, error=error))
