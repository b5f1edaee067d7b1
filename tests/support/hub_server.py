"""A model hub on the loopback interface, as much of it as downloading one file needs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Hub:
    """What the stand-in serves and how it misbehaves.

    Attributes:
        files: {"owner/name/resolve/revision/file": content}.
        etags: an etag by path, where it is not to be a plain one.
        break_after: the first download of a file stops after so many bytes.
        stall_after: a download sends so many bytes, sets `stalled`, and no more until `go_on`.
        requests: what was asked for, "METHOD path", in order.
    """

    endpoint: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    etags: dict[str, str] = field(default_factory=dict)
    break_after: int | None = None
    stall_after: int | None = None
    stalled: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)
    requests: list[str] = field(default_factory=list)


@contextmanager
def running_hub() -> Iterator[Hub]:
    """Serve until the block ends."""
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def do_GET(self) -> None:
            self._answer(with_body=True)

        def _answer(self, *, with_body: bool) -> None:
            hub.requests.append(f"{self.command} {self.path}")
            path = self.path.lstrip("/").partition("?")[0]
            content = hub.files.get(path)
            if content is None:
                self.send_response(404)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            begin = 0
            if wanted := self.headers.get("Range"):
                begin = int(wanted.removeprefix("bytes=").rstrip("-"))
            self.send_response(206 if begin else 200)
            self.send_header("Content-Length", str(len(content) - begin))
            if begin:
                span = f"bytes {begin}-{len(content) - 1}/{len(content)}"
                self.send_header("Content-Range", span)
            self.send_header("ETag", f'"{hub.etags.get(path, "plain")}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.end_headers()
            if not with_body:
                return
            if hub.break_after is not None:
                content, hub.break_after = content[: hub.break_after], None
                self.close_connection = True
            if hub.stall_after is not None:
                self.wfile.write(content[begin : hub.stall_after])
                begin, hub.stall_after = hub.stall_after, None
                hub.stalled.set()
                hub.go_on.wait()
            self.wfile.write(content[begin:])

        def log_message(self, format: str, *arguments: object) -> None:
            """Keep the test's output clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield hub
    finally:
        hub.go_on.set()
        server.shutdown()
        server.server_close()
        thread.join()
