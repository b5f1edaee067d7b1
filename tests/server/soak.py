"""A soak: a real server for minutes, eight clients that mix everything, and figures at the end.

    python -m tests.server.soak --seconds 300 -m smollm2-135m-instruct
    python -m tests.server.soak --seconds 300       # over a table, with a cache that is too small

Starts `leeway serve` in a process of its own, asks each of some requests alone, then lets the
clients ask them at once, at random, whole and streamed, for so many seconds; in between they leave
in the middle of streams and send requests that are wrong. Then the server is stopped as an operator
stops it. Prints one JSON object:

- `requests`: answered, left in the middle, refused as they should be; `num_errors` and the first of
  them: whatever else came (0 is right);
- `compared`: answers, of these the greedy ones, and those that were not the same as when asked
  alone (0 is right), of which `different` shows the first;
- `server`: tokens, cached prompt tokens and preemptions by the server'"'"'s own /metrics;
- `latency_s`, `first_token_s`: percentiles of whole answers, and of streams to their first frame;
- `resident_mib`: the server's memory before the clients, half way, at the end, and the most;
  `is_flat` if it grew by less than 5 % from half way to the end;
- `caches`: blocks of the target's cache and the drafter's, and how many were not given back.

The exit code is 1 if `is_good` is false.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from prometheus_client.parser import text_string_to_metric_families

from tests.server.soak_requests import WRONG, Order, Said, chunks, joined, make_orders, whole

NUM_CLIENTS = 8
MODEL_TEXTS = [
    "The cat sat on the mat, the cat sat on the hat, and the dog sat on the cat.",
    "List the days of the week, then list them again in the same order, one a line.",
    "def add(a, b):\n    return a + b\n\n\ndef subtract(a, b):\n    return",
    "Why is the sky blue? Answer in one sentence. Then say why the sea is blue.",
]
TABLE_TEXTS = ["abcdabcdaabbccddabcdabcd", "aaaaaaaabbbbbbbb", "dcbadcbadcba"]
TIMEOUT_S = 120.0
GROWTH_RATE = 0.05
LEAST_ASKED = 12
"""Requests that each client sends, however short the time."""
TOTALS = (
    "leeway_generation_tokens_total",
    "leeway_prompt_tokens_cached_total",
    "leeway_num_preemptions_total",
)


@dataclass
class Figures:
    """What came of a soak; see the module."""

    model: str
    seconds: float
    clients: int
    requests: dict[str, int] = field(default_factory=dict)
    tokens: int = 0
    latency_s: dict[str, float] = field(default_factory=dict)
    first_token_s: dict[str, float] = field(default_factory=dict)
    num_errors: int = 0
    errors: list[str] = field(default_factory=list)
    compared: dict[str, int] = field(default_factory=dict)
    server: dict[str, float] = field(default_factory=dict)
    different: list[str] = field(default_factory=list)
    resident_mib: dict[str, float] = field(default_factory=dict)
    caches: list[dict[str, int]] = field(default_factory=list)

    @property
    def is_flat(self) -> bool:
        """Whether the server's memory stayed as it was half way."""
        return self.resident_mib["end"] < (1 + GROWTH_RATE) * self.resident_mib["middle"]

    @property
    def is_good(self) -> bool:
        """Whether nothing went wrong, and something was seen at all."""
        is_idle = all(one["blocks"] > 0 and one["lost"] == 0 for one in self.caches)
        is_right = self.num_errors == 0 and self.compared["different"] == 0
        return is_right and is_idle and bool(self.caches) and self.is_flat and self.tokens > 0

    def to_dict(self) -> dict[str, Any]:
        """Return what is printed."""
        rate = {"tokens_per_s": round(self.tokens / self.seconds, 1)}
        return asdict(self) | rate | {"is_flat": self.is_flat, "is_good": self.is_good}


@dataclass
class Seen:
    """What one client saw."""

    answered: int = 0
    greedy: int = 0
    left: int = 0
    refused: int = 0
    tokens: int = 0
    errors: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    first_tokens: list[float] = field(default_factory=list)


class Client:
    """Asks at random until the time is up."""

    def __init__(self, url: str, number: int, expected: Sequence[tuple[Order, Said]]) -> None:
        self._http = httpx2.Client(base_url=url, timeout=TIMEOUT_S)
        self._draw = random.Random(number)
        self._expected = expected
        self.seen = Seen()

    def run(self, ends: float) -> Seen:
        """Ask a few times, and until a time of the monotonic clock; return what was seen."""
        num_asked = 0
        with self._http:
            while num_asked < LEAST_ASKED or time.monotonic() < ends:
                num_asked += 1
                order, said = self._draw.choice(self._expected)
                kind = self._draw.random()
                try:
                    if kind < 0.1:
                        self._ask_wrongly()
                    elif kind < 0.2 and order.can_stream:
                        self._leave(order)
                    else:
                        self._compare(order, said, is_stream=order.can_stream and kind < 0.6)
                except (AssertionError, httpx2.HTTPError) as error:
                    self.seen.errors.append(f"{type(error).__name__} {error} of {order}"[:600])
        return self.seen

    def _ask_wrongly(self) -> None:
        path, body, status = self._draw.choice(WRONG)
        response = self._http.post(path, json=body)
        assert response.status_code == status, f"{response.status_code} for {body}"
        self.seen.refused += 1

    def _leave(self, order: Order) -> None:
        with contextlib.closing(chunks(self._http, order)) as frames:
            for _ in range(self._draw.randint(1, 3)):
                next(frames, None)
        self.seen.left += 1

    def _compare(self, order: Order, said: Said, *, is_stream: bool) -> None:
        began = time.monotonic()
        if is_stream:
            frames = []
            for frame in chunks(self._http, order):
                if not frames:
                    self.seen.first_tokens.append(time.monotonic() - began)
                frames.append(frame)
            now = joined(frames)
        else:
            now = whole(self._http, order)
        self.seen.latencies.append(time.monotonic() - began)
        self.seen.answered += 1
        self.seen.greedy += order.is_greedy
        self.seen.tokens += now.num_tokens
        if now != said:
            self.seen.different.append(f"{order}: {now}, alone {said}"[:600])


class Memory:
    """The resident memory of a process, looked at while a soak lasts."""

    def __init__(self, pid: int) -> None:
        self._path = Path(f"/proc/{pid}/status")
        self.most = 0.0

    def read(self) -> float:
        """Return MiB."""
        fields = dict(line.split(":", 1) for line in self._path.read_text().splitlines())
        now = int(fields["VmRSS"].split()[0]) / 1024
        self.most = max(self.most, now)
        return round(now, 1)

    def watch(self, seconds: float, ended: threading.Event) -> dict[str, float]:
        """Look ten times; return what was there half way."""
        middle = self.read()
        for number in range(10):
            ended.wait(seconds / 10)
            if number < 5:
                middle = self.read()
        return {"middle": middle}


@contextlib.contextmanager
def served(kind: str, flags: Sequence[str], log: Path) -> Iterator[tuple[subprocess.Popen, str]]:
    """Serve until the end of the `with`; yield the process and its URL."""
    command = [sys.executable, "-m", "tests.server.soak_server", kind, "--port", "0"]
    with (
        log.open("w") as stderr,
        subprocess.Popen(
            [*command, "--allow-laws", "all", *flags],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        ) as process,
    ):
        try:
            url = process.stdout.readline().strip()
            assert url.startswith("http://"), log.read_text()
            yield process, url
        finally:
            if process.poll() is None:
                process.kill()


def soak(seconds: float, model: str | None = None, *, num_orders: int = 40) -> Figures:
    """Soak a server of a model, or of a table, for so many seconds."""
    figures = Figures(model or "table", seconds, NUM_CLIENTS)
    orders = make_orders(
        TABLE_TEXTS if model is None else MODEL_TEXTS,
        "[a-c]{2,9}" if model is None else "[A-Z][a-z]{2,9}",
        num_orders,
        300 if model is None else 64,
    )
    flags = [] if model is None else ["-m", model, "--kv-memory", "64MiB"]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with served("table" if model is None else "model", flags, log) as (process, url):
            with httpx2.Client(base_url=url, timeout=TIMEOUT_S) as http:
                expected = [(order, whole(http, order)) for order in orders]
            _ask_at_once(figures, url, expected, Memory(process.pid))
            figures.server = _totals_when_idle(url)
            process.send_signal(signal.SIGTERM)
            rest, _ = process.communicate(timeout=60)
        if process.returncode == 0:
            figures.caches = json.loads(rest)
        else:
            figures.errors.append(f"exit code {process.returncode}")
        if "Traceback" in log.read_text():
            figures.errors.append(log.read_text()[-2000:])
    figures.num_errors += len(figures.errors)
    figures.errors = figures.errors[:10]
    return figures


def _ask_at_once(
    figures: Figures, url: str, expected: Sequence[tuple[Order, Said]], memory: Memory
) -> None:
    """Let the clients ask; mutates the figures."""
    clients = [Client(url, number, expected) for number in range(NUM_CLIENTS)]
    start, ended = memory.read(), threading.Event()
    began = time.monotonic()
    ends = began + figures.seconds
    with ThreadPoolExecutor(NUM_CLIENTS + 1) as pool:
        watched = pool.submit(memory.watch, figures.seconds, ended)
        seen = [task.result() for task in [pool.submit(one.run, ends) for one in clients]]
        end = memory.read()
        figures.seconds = max(0.01, round(time.monotonic() - began, 2))
        ended.set()
    figures.resident_mib = {"start": start, **watched.result(), "end": end}
    figures.resident_mib["most"] = round(memory.most, 1)
    names = ("answered", "left", "refused")
    figures.requests = {name: sum(getattr(one, name) for one in seen) for name in names}
    figures.tokens = sum(one.tokens for one in seen)
    figures.compared = {
        "answers": figures.requests["answered"],
        "greedy": sum(one.greedy for one in seen),
        "different": sum(len(one.different) for one in seen),
    }
    figures.latency_s = percentiles([value for one in seen for value in one.latencies])
    figures.first_token_s = percentiles([value for one in seen for value in one.first_tokens])
    figures.errors += [error for one in seen for error in one.errors]
    figures.different = [text for one in seen for text in one.different][:10]


def _totals_when_idle(url: str) -> dict[str, float]:
    """Return some of the server's totals, once what was left in the middle has ended there too."""
    ends = time.monotonic() + TIMEOUT_S
    while time.monotonic() < ends:
        load = httpx2.get(url + "/health", timeout=TIMEOUT_S).json()["load"]
        if load["num_requests_running"] == load["num_requests_waiting"] == 0:
            break
        time.sleep(0.05)
    found = dict.fromkeys(TOTALS, 0.0)
    page = httpx2.get(url + "/metrics", timeout=TIMEOUT_S).text
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if sample.name in TOTALS:
                found[sample.name] += sample.value
    return found


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """Return the least values that a half, nine tenths and so on do not exceed (nearest rank)."""
    ranked = sorted(values)
    if not ranked:
        return {}
    at = {f"p{part}": ranked[-(-len(ranked) * part // 100) - 1] for part in (50, 90, 99)}
    return {name: round(value, 4) for name, value in {**at, "most": ranked[-1]}.items()}


def main() -> int:
    """Soak as asked on the command line, print the figures, return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.server.soak", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("-m", "--model", help="a model's name or path; a table without it")
    asked = parser.parse_args()
    figures = soak(asked.seconds, asked.model)
    sys.stdout.write(json.dumps(figures.to_dict(), indent=2) + "\n")
    return 0 if figures.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
