"""An OpenAI-compatible server that says what it is told to, piece by piece."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Piece = bytes | float | None
Script = Sequence[Piece]
"""Bytes are sent, a number is waited for (seconds), None breaks the connection."""


def chunk(text: str = "", reason: str | None = None, **more: object) -> bytes:
    """Return one event of a text completion."""
    choice = {"index": 0, "text": text, "finish_reason": reason}
    return event({"object": "text_completion", "choices": [choice], **more})


def chat_chunk(text: str = "", reason: str | None = None) -> bytes:
    """Return one event of a chat completion."""
    return event({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": reason}]})


def usage(prompt_tokens: int, completion_tokens: int, **more: object) -> bytes:
    """Return the event that ends a stream."""
    counts = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
    return event({"choices": [], "usage": counts, **more})


def event(value: object) -> bytes:
    """Return one event."""
    return b"data: " + json.dumps(value).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


def answer(*texts: str, prompt_tokens: int = 3, gap_s: float = 0.0, **more: object) -> Script:
    """Return a whole answer, one chunk a text."""
    pieces: list[Piece] = []
    for text in texts:
        pieces += [gap_s, chunk(text)]
    return [*pieces, chunk(reason="length"), usage(prompt_tokens, len(texts), **more), DONE]


class Listener(ThreadingHTTPServer):
    fake: FakeServer


class Handler(BaseHTTPRequestHandler):
    server: Listener

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        fake = self.server.fake
        told = {
            "/v1/models": json.dumps({"data": [{"id": name} for name in fake.models]}),
            "/metrics": fake.metrics,
        }.get(self.path, "")
        self.send_response(200 if told else 404)
        self.send_header("Content-Length", str(len(told.encode())))
        self.end_headers()
        self.wfile.write(told.encode())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.fake.begin(self.path, body)
        try:
            self._send(*self.server.fake.reply(body))
        finally:
            self.server.fake.end()

    def _send(self, status: int, script: Script) -> None:
        self.close_connection = True
        self.send_response(status)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in script:
            if piece is None:
                return
            if isinstance(piece, float):
                time.sleep(piece)
                continue
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")


class FakeServer:
    """A running server.

    `bodies` are what it was asked, with their paths; `metrics` is what it has at /metrics.
    """

    def __init__(self, reply: Callable[[dict], tuple[int, Script]], models: Sequence[str]) -> None:
        self.bodies: list[tuple[str, dict]] = []
        self.metrics = ""
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()
        self.reply, self.models = reply, models
        self.server = Listener(("127.0.0.1", 0), Handler)
        self.server.fake = self
        self.server.daemon_threads = False
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    def begin(self, path: str, body: dict) -> None:
        with self._lock:
            self.bodies.append((path, body))
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)

    def end(self) -> None:
        with self._lock:
            self._at_once -= 1


@contextmanager
def fake_server(
    reply: Callable[[dict], tuple[int, Script]], models: Sequence[str] = ("tiny",)
) -> Iterator[FakeServer]:
    """Run a server that answers each body by its status and script."""
    fake = FakeServer(reply, models)
    thread = threading.Thread(target=fake.server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield fake
    finally:
        fake.server.shutdown()
        thread.join()
        fake.server.server_close()
