"""One streamed answer of an OpenAI-compatible server, with the time of every chunk.

In: a URL and a body. Out: what arrived and when; a refusal, a broken stream or silence is part of
what arrived and never raised. The standard library's client is enough here: it sends without delay,
hands on each line as it arrives, and needs a thread a request, of which a load test has few. Knows
nothing of arms, prompts or tokens.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from leeway.core.errors import ConfigError

TIMEOUT_S = 600.0
OWN_METRICS = ("metrics", "timings")
"""What servers tell of themselves: this one and vLLM under `metrics`, llama.cpp `timings`."""
_MAX_ERROR_LEN = 300
_BROKEN = (OSError, http.client.HTTPException)


@dataclass(frozen=True, slots=True)
class Answer:
    """What arrived, in seconds from opening the connection.

    Attributes:
        chunk_s: arrival of every chunk with text.
        end_s: arrival of the chunk with the finish reason; of whatever came last if there is none.
        usage: as the server counted; None if it did not say.
        own: the server's own metrics.
        error: why the answer is not whole; None if it is.
    """

    text: str
    chunk_s: tuple[float, ...]
    end_s: float
    finish_reason: str | None
    usage: Mapping[str, Any] | None
    own: Mapping[str, Any]
    status: int | None
    error: str | None

    @property
    def ttft_s(self) -> float | None:
        """Time to the first text; None if none came."""
        return self.chunk_s[0] if self.chunk_s else None

    @property
    def decode_s(self) -> float | None:
        """From the first text to the end; None if no text came."""
        return self.end_s - self.chunk_s[0] if self.chunk_s else None

    @property
    def gaps_s(self) -> tuple[float, ...]:
        """Times between chunks with text."""
        return tuple(b - a for a, b in zip(self.chunk_s, self.chunk_s[1:], strict=False))

    def count(self, name: str) -> int | None:
        """Return a count of the usage; None where the server gave none or no number."""
        value = None if self.usage is None else self.usage.get(name)
        return value if isinstance(value, int) and value >= 0 else None


def ask(
    url: str,
    body: bytes,
    *,
    timeout_s: float = TIMEOUT_S,
    now: Callable[[], float] = time.perf_counter,
) -> Answer:
    """Post a body and read the stream to its end.

    Args:
        url: of the endpoint.
        body: JSON with `stream: true`.
        timeout_s: longest silence of the server.
        now: the clock.
    """
    began = now()
    status = None
    connection = _connection(url, timeout_s)
    try:
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        connection.request("POST", urlsplit(url).path, body, headers)
        response = connection.getresponse()
        status = response.status
        if status != 200:
            words = _error_text(response.read())
            return _failed(f"HTTP {status}: {words}", now() - began, status)
        return read_stream(response, began, now)
    except _BROKEN as reason:
        return _failed(_reason(reason), now() - began, status)
    finally:
        connection.close()


def read_stream(lines: Iterable[bytes], began: float, now: Callable[[], float]) -> Answer:
    """Return the answer that the lines of an event stream hold, each timed as it arrives."""
    texts: list[str] = []
    chunk_s: list[float] = []
    ended_s: float | None = None
    last_s = 0.0
    finish_reason, usage, error = None, None, None
    is_done = False
    own: dict[str, Any] = {}
    try:
        for event in _events(lines):
            last_s = now() - began
            if event is None:
                is_done = True
                break
            if "error" in event:
                error = f"the server said mid-stream: {_error_words(event['error'])}"
                break
            text, reason = _choice(event)
            if text:
                texts.append(text)
                chunk_s.append(last_s)
            if reason is not None:
                finish_reason, ended_s = reason, last_s
            usage = event.get("usage") or usage
            own |= {key: event[key] for key in OWN_METRICS if event.get(key) is not None}
    except _BROKEN as reason:
        error, last_s = f"mid-stream: {_reason(reason)}", now() - began
    except ValueError as reason:
        error, last_s = f"mid-stream: not an event of a completion ({reason})", now() - began
    if error is None and finish_reason is None:
        error = "the stream ended without a finish reason" + ("" if is_done else " or [DONE]")
    end_s = last_s if ended_s is None else ended_s
    return Answer("".join(texts), tuple(chunk_s), end_s, finish_reason, usage, own, 200, error)


def get_json(url: str, timeout_s: float) -> Any:  # noqa: ANN401 - any JSON value
    """Return what a GET gives.

    Raises:
        OSError: there is no answer, another status than 200, or no JSON.
    """
    return _json(url, timeout_s, "GET", None)


def post_json(url: str, body: bytes, timeout_s: float) -> Any:  # noqa: ANN401 - any JSON value
    """Return what a POST of JSON gives.

    Raises:
        OSError: there is no answer, another status than 200, or no JSON.
    """
    return _json(url, timeout_s, "POST", body)


def _json(url: str, timeout_s: float, method: str, body: bytes | None) -> Any:  # noqa: ANN401
    connection = _connection(url, timeout_s)
    headers = {} if body is None else {"Content-Type": "application/json"}
    try:
        connection.request(method, urlsplit(url).path or "/", body, headers)
        response = connection.getresponse()
        content = response.read()
        if response.status != 200:
            raise OSError(f"HTTP {response.status}: {_error_text(content)}")
        return json.loads(content)
    except http.client.HTTPException as reason:
        raise OSError(_reason(reason)) from None
    except ValueError as reason:
        raise OSError(f"not JSON: {reason}") from None
    finally:
        connection.close()


def check_url(url: str, named: str) -> str:
    """Return the base URL of an API, ending in a path such as /v1.

    Raises:
        ConfigError: it is not http or https with a host, or holds a user, query or fragment.
    """
    try:
        parts = urlsplit(url)
        is_good = bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, is_good = urlsplit(""), False
    is_bare = not (parts.query or parts.fragment or parts.username or parts.password)
    if not is_good or parts.scheme not in ("http", "https") or not is_bare:
        raise ConfigError(
            f"{named} has the URL {url!r}; give one like http://127.0.0.1:8080/v1, without user, "
            "query or fragment"
        )
    path = parts.path.rstrip("/") or "/v1"
    return f"{parts.scheme}://{parts.netloc}{path}"


def _connection(url: str, timeout_s: float) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    return kind(parts.hostname or "", parts.port, timeout=timeout_s)


def _events(lines: Iterable[bytes]) -> Iterator[dict[str, Any] | None]:
    """Yield the JSON of each event; None for the [DONE] that ends a stream."""
    for line in lines:
        if not line.startswith(b"data:"):
            continue  # a comment that keeps the connection alive, or the blank between events
        data = line[5:].strip()
        if data == b"[DONE]":
            yield None
            return
        event = json.loads(data)
        if not isinstance(event, dict):
            raise ValueError(f"{data[:50]!r} is no object")
        yield event


def _choice(event: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return text and finish reason of a chunk's first choice."""
    choices = event.get("choices") or [{}]
    choice = choices[0] if isinstance(choices, list) else None
    if not isinstance(choice, dict):
        raise ValueError("choices hold no object")
    delta = choice.get("delta")
    text = delta.get("content") if isinstance(delta, dict) else choice.get("text")
    reason = choice.get("finish_reason")
    return (text if isinstance(text, str) else ""), (None if reason is None else str(reason))


def _failed(error: str, end_s: float, status: int | None) -> Answer:
    return Answer("", (), end_s, None, None, {}, status, error)


def _reason(reason: Exception) -> str:
    if isinstance(reason, TimeoutError):
        return "the server was silent for too long"
    return f"{type(reason).__name__}: {reason}" if str(reason) else type(reason).__name__


def _error_text(content: bytes) -> str:
    try:
        value = json.loads(content)
    except ValueError:
        return content.decode(errors="replace").strip()[:_MAX_ERROR_LEN] or "no reason given"
    return _error_words(value.get("error", value) if isinstance(value, dict) else value)


def _error_words(value: object) -> str:
    words = value.get("message", value) if isinstance(value, dict) else value
    return str(words)[:_MAX_ERROR_LEN]
