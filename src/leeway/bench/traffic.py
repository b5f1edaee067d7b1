"""Load on a server: many requests at once, and what they wait.

Closed loop: a number of clients, each of which asks again as soon as its answer is whole. Open
loop: requests arrive at random times (a Poisson process) whatever the server does. In: bodies and a
way to ask. Out: replies with the time each was due and begun. Knows nothing of models.
"""

from __future__ import annotations

import math
import queue
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from leeway.bench.http_stream import Answer

Ask = Callable[[int], Answer]
PERCENTILES = (50, 90, 99)
DEFINITIONS = {
    "requests/s": "whole answers / time from the first request to the end of the last answer",
    "tokens/s": "output tokens of whole answers, as the server counted them, / the same time",
    "TTFT": "from the moment a request was due to its first text",
    "TPOT": "time behind the first text / output tokens behind the first, of each request with two "
    "or more",
    "end to end": "from the moment a request was due to the end of its answer",
    "late": "at a request rate: the longest time that this client began a request behind its due "
    "moment; such a wait is its own, and counted",
    "percentile": "the least value that at least so many percent of the requests do not exceed",
    "failed": "requests without a whole answer; in no latency and no throughput",
}


@dataclass(frozen=True, slots=True)
class Reply:
    """One request: seconds from the start of the run, and what came."""

    index: int
    due_s: float
    began_s: float
    answer: Answer

    @property
    def ended_s(self) -> float:
        """End of the answer."""
        return self.began_s + self.answer.end_s

    @property
    def ttft_s(self) -> float | None:
        """From the moment it was due to the first text; None if none came."""
        first = self.answer.ttft_s
        return None if first is None else self.began_s - self.due_s + first

    @property
    def tpot_s(self) -> float | None:
        """Time of a token behind the first; None without a count of two or more."""
        num, seconds = self.answer.count("completion_tokens"), self.answer.decode_s
        return None if num is None or num < 2 or seconds is None else seconds / (num - 1)

    @property
    def wall_s(self) -> float:
        """From the moment it was due to its end."""
        return self.ended_s - self.due_s


@dataclass(frozen=True, slots=True)
class LevelSummary:
    """What one level of load gave; latencies in seconds by percentile, None where none is known.

    `errors` counts failures by their words.
    """

    load: str
    num_requests: int
    num_whole: int
    wall_s: float
    requests_per_s: float | None
    tokens_per_s: float | None
    ttft_s: dict[str, float | None]
    tpot_s: dict[str, float | None]
    end_to_end_s: dict[str, float | None]
    late_s: float
    errors: dict[str, int]


def closed_loop(
    ask: Ask,
    num_requests: int,
    concurrency: int,
    now: Callable[[], float] = time.perf_counter,
) -> list[Reply]:
    """Run requests 0, 1, ... by this many clients, each asking again behind its answer.

    Raises:
        KeyboardInterrupt: passed on when the requests that were running have ended.
    """
    began = now()
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for index in range(num_requests):
        waiting.put(index)
    replies: list[Reply] = []

    def client() -> None:
        while True:
            try:
                index = waiting.get_nowait()
            except queue.Empty:
                return
            started = now() - began
            replies.append(Reply(index, started, started, ask(index)))

    _run_all([threading.Thread(target=client) for _ in range(concurrency)], waiting)
    return sorted(replies, key=lambda one: one.index)


def open_loop(
    ask: Ask,
    due_s: Sequence[float],
    now: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> list[Reply]:
    """Run a request at each of these moments, in seconds from now, whatever is still running."""
    began = now()
    replies: list[Reply] = []

    def client(index: int) -> None:
        started = now() - began
        replies.append(Reply(index, due_s[index], started, ask(index)))

    threads = []
    try:
        for index, due in enumerate(due_s):
            left = due - (now() - began)
            if left > 0:
                sleep(left)
            thread = threading.Thread(target=client, args=(index,))
            threads.append(thread)
            thread.start()
    finally:
        for thread in threads:
            thread.join()
    return sorted(replies, key=lambda one: one.index)


def poisson_times(rate: float, num_requests: int, seed: int) -> list[float]:
    """Return when requests are due: the first at 0, then gaps that are exponential.

    Args:
        rate: requests a second, above 0.
        num_requests: how many.
        seed: of the gaps; equal seeds give equal times.
    """
    draws = random.Random(seed)
    times = [0.0]
    for _ in range(num_requests - 1):
        times.append(times[-1] - math.log(1.0 - draws.random()) / rate)
    return times[:num_requests]


def percentile(values: Sequence[float], percent: float) -> float | None:
    """Return the nearest-rank percentile; None of nothing."""
    if not values:
        return None
    rank = max(1, math.ceil(percent * len(values) / 100))
    return sorted(values)[rank - 1]


def summarise_level(load: str, replies: Sequence[Reply]) -> LevelSummary:
    """Return throughput and latencies of one level.

    Args:
        load: in words, such as "4 clients".
        replies: of all its requests.
    """
    whole = [one for one in replies if one.answer.error is None]
    start = min((one.due_s for one in replies), default=0.0)
    wall_s = max((one.ended_s for one in replies), default=0.0) - start
    counts = [one.answer.count("completion_tokens") for one in whole]
    tokens = None if None in counts else sum(one for one in counts if one is not None)
    errors: dict[str, int] = {}
    for one in replies:
        if one.answer.error is not None:
            errors[one.answer.error] = errors.get(one.answer.error, 0) + 1
    has_time = wall_s > 0 and bool(whole)
    return LevelSummary(
        load=load,
        num_requests=len(replies),
        num_whole=len(whole),
        wall_s=wall_s,
        requests_per_s=len(whole) / wall_s if has_time else None,
        tokens_per_s=tokens / wall_s if has_time and tokens is not None else None,
        ttft_s=_percentiles([one.ttft_s for one in whole]),
        tpot_s=_percentiles([one.tpot_s for one in whole]),
        end_to_end_s=_percentiles([one.wall_s for one in whole]),
        late_s=max((one.began_s - one.due_s for one in replies), default=0.0),
        errors=dict(sorted(errors.items())),
    )


def reply_to_json(reply: Reply) -> dict[str, Any]:
    """Return a reply as JSON holds it, text left out."""
    answer = reply.answer
    return {
        "index": reply.index,
        "due_s": reply.due_s,
        "began_s": reply.began_s,
        "chunk_s": list(answer.chunk_s),
        "end_s": answer.end_s,
        "finish_reason": answer.finish_reason,
        "usage": None if answer.usage is None else dict(answer.usage),
        "server": dict(answer.own),
        "status": answer.status,
        "error": answer.error,
    }


def _percentiles(values: Sequence[float | None]) -> dict[str, float | None]:
    known = [one for one in values if one is not None]
    return {f"p{percent}": percentile(known, percent) for percent in PERCENTILES}


def _run_all(threads: Sequence[threading.Thread], waiting: queue.SimpleQueue[int]) -> None:
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except KeyboardInterrupt:
        while not waiting.empty():
            waiting.get_nowait()
        for thread in threads:
            thread.join()
        raise
