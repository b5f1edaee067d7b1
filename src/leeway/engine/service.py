"""The engine on a thread of its own, with an asynchronous face.

In: requests from an event loop. Out: asynchronous streams of deltas. The thread loads the engine,
then steps it while there is work; only this thread changes it after that. Other threads may check
requests, and read `status` and `totals`, which are replaced whole and never changed. Closing a
stream early cancels its request within one step.

More requests than may run and wait are refused at once. A request that takes longer than allowed,
waiting included, ends with an error within a step. While it drains, running and waiting requests
are finished and new ones refused.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Any, Literal

from leeway.core.errors import (
    BackendError,
    LeewayError,
    QueueFullError,
    RequestTimeoutError,
    UnavailableError,
)
from leeway.core.types import FinishReason, OutputDelta, Request
from leeway.engine.engine import Engine

State = Literal["loading", "ready", "draining", "failed", "stopped"]
Sink = Callable[[OutputDelta], None]

MAX_RETRY_AFTER_S = 60
_MEMORY = 0.9

logger = logging.getLogger("leeway")


@dataclass(frozen=True, slots=True)
class _Caller:
    """Who waits for a request's deltas, and since when by the service's clock."""

    deliver: Sink
    arrived_at: float


class EngineService:
    """Runs one engine on one thread for many asynchronous callers."""

    def __init__(
        self,
        load: Callable[[], Engine],
        *,
        max_num_waiting: int | None = None,
        request_timeout_s: float = 0.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take what a service is made of.

        Args:
            load: loads the engine; runs on the thread.
            max_num_waiting: most requests beyond those that can run; None sets no limit.
            request_timeout_s: longest time of a request; 0 sets no limit.
            now: the clock, in seconds.
        """
        self._max_num_waiting = max_num_waiting
        self._request_timeout_s = request_timeout_s
        self._now = now
        self._mean_request_s: float | None = None
        self.state: State = "loading"
        self.error: LeewayError | None = None
        self._load = load
        self._engine: Engine | None = None
        self._wake = threading.Condition()
        self._arrivals: list[Request] = []
        self._cancellations: list[str] = []
        self._callers: dict[str, _Caller] = {}
        self._deadlines: deque[tuple[float, str]] = deque()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="leeway-engine", daemon=True)

    @property
    def engine(self) -> Engine:
        """The engine; only while ready or draining."""
        assert self._engine is not None
        return self._engine

    @property
    def num_open(self) -> int:
        """Requests whose last delta has not been delivered."""
        return len(self._callers)

    def start(self) -> None:
        """Begin to load; returns at once."""
        self._thread.start()

    def drain(self) -> None:
        """Refuse new requests from now on; those that came are finished."""
        with self._wake:
            if self.state == "ready":
                self.state = "draining"
            self._wake.notify_all()

    def stop(self, drain_timeout_s: float = 30.0) -> None:
        """Let running requests finish for so long, then cancel what is left and end the thread."""
        self.drain()
        with self._wake:
            idle = self._wake.wait_for(
                lambda: not self._callers or self.state != "draining", drain_timeout_s
            )
            if not idle:
                logger.warning("cancelled %d requests at shutdown", len(self._callers))
            self._is_stopping = True
            self._wake.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    async def stream(self, request: Request) -> AsyncGenerator[OutputDelta, None]:
        """Yield the request's deltas; closing the iterator early cancels the request.

        Raises:
            QueueFullError: too many requests wait; before the first delta, as every refusal.
            UnavailableError: the engine is not ready.
            RequestTimeoutError: the time is up.
            LeewayError: the request is refused, or the engine failed.
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
            self._refuse_if_full()
            self._arrivals.append(request)
            self._callers[request.request_id] = _Caller(deliver, self._now())
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
        if self.state != "ready":
            raise self.error or UnavailableError(f"the engine is {self.state}; try again later")

    def _refuse_if_full(self) -> None:
        if self._max_num_waiting is None:
            return
        num_seqs = self.engine.config.max_num_seqs
        if len(self._callers) >= num_seqs + self._max_num_waiting:
            # A place is free when one of those that run has ended.
            retry_after_s = math.ceil((self._mean_request_s or 0.0) / num_seqs)
            raise QueueFullError(
                f"{len(self._callers)} requests run and wait already; this server takes "
                f"{num_seqs} and {self._max_num_waiting} (--max-num-seqs, --max-num-waiting): "
                "try again later",
                retry_after_s=min(max(retry_after_s, 1), MAX_RETRY_AFTER_S),
            )

    def _run(self) -> None:
        try:
            self._engine = self._load()
            self._enter("ready")
            while self._take_orders():
                for delta in self.engine.step():
                    self._deliver(delta)
                if self._deadlines:
                    self._expire()
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
        for request in arrivals:
            self.engine.add(request)
            if self._request_timeout_s > 0:
                arrived_at = self._callers[request.request_id].arrived_at
                self._deadlines.append((arrived_at + self._request_timeout_s, request.request_id))
        for request_id in cancellations:
            delta = self.engine.cancel(request_id)
            if delta is not None:
                self._deliver(delta)
        return True

    def _expire(self) -> None:
        """End the requests whose time is up; deadlines come in order of arrival."""
        now = self._now()
        while self._deadlines and self._deadlines[0][0] <= now:
            _, request_id = self._deadlines.popleft()
            error = RequestTimeoutError(
                f"the answer was not finished in {self._request_timeout_s:g} s, waiting included, "
                "which is what this server allows (--request-timeout-s): ask for fewer tokens, or "
                "try when it is less busy"
            )
            delta = self.engine.cancel(request_id, error)
            if delta is not None:
                self._deliver(delta)

    def _deliver(self, delta: OutputDelta) -> None:
        caller = self._callers[delta.request_id]
        if delta.finish_reason is not None:
            with self._wake:
                del self._callers[delta.request_id]
                self._wake.notify_all()
            if delta.finish_reason is not FinishReason.CANCELLED:
                self._count_time(self._now() - caller.arrived_at)
        caller.deliver(delta)

    def _count_time(self, took_s: float) -> None:
        """Bring the mean time of a request up to date; the first is the mean of itself."""
        mean_s = took_s if self._mean_request_s is None else self._mean_request_s
        self._mean_request_s = mean_s + (1 - _MEMORY) * (took_s - mean_s)

    def _cancel_all(self) -> None:
        for request_id in list(self._callers):
            delta = self.engine.cancel(request_id)
            if delta is None:
                delta = OutputDelta(request_id, (), (), "", FinishReason.CANCELLED)
            self._deliver(delta)

    def _give_up(self, error: LeewayError) -> None:
        """Fail every request; later ones are refused with the same error."""
        self._enter("failed", error)
        for request_id in list(self._callers):
            self._deliver(OutputDelta(request_id, (), (), "", FinishReason.ERROR, error=error))
