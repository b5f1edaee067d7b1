"""Serves an engine that has no server of its own: a stream of text completions, one at a time.

Run by the rival's Python, `python token_server.py '{"engine": MODULE, "name": NAME, "port": N,
...}'`, where MODULE lies beside this file and holds `Engine`, which reads the rest: "model", PATH;
"threads", N; "speculation", KIND; "draft_model", PATH or null; "draft_tokens" and "match_tokens", N
or null. Prompts are token ids or text. Imports nothing of this project.
"""

from __future__ import annotations

import importlib
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Handler(BaseHTTPRequestHandler):
    """Answers requests; `engine` and `name` are set before it serves."""

    engine: Any
    name: str
    lock = threading.Lock()

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """List the one model."""
        self._whole(200, {"object": "list", "data": [{"id": self.name, "object": "model"}]})

    def do_POST(self) -> None:
        """Stream a completion, or refuse."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        words = self.engine.refusal(body)
        if words is None and self.path != "/v1/completions":
            words = "only /v1/completions is served"
        if words is not None:
            self._whole(400, {"error": {"message": words}})
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        try:
            with self.lock:
                self._stream(body)
        except Exception as reason:
            words = f"{type(reason).__name__}: {reason}"
            self._event({"error": {"message": words[:300]}})

    def _stream(self, body: dict[str, Any]) -> None:
        def on_text(text: str) -> None:
            self._event({"choices": [{"index": 0, "text": text, "finish_reason": None}]})

        read, written = self.engine.generate(body, on_text)
        reason = "length" if written >= body.get("max_tokens", 16) else "stop"
        self._event({"choices": [{"index": 0, "text": "", "finish_reason": reason}]})
        usage = {"prompt_tokens": read, "completion_tokens": written}
        self._event({"choices": [], "usage": usage | {"total_tokens": read + written}})
        self.wfile.write(b"data: [DONE]\n\n")

    def _event(self, value: dict[str, Any]) -> None:
        self.wfile.write(b"data: " + json.dumps(value).encode() + b"\n\n")
        self.wfile.flush()

    def _whole(self, status: int, value: dict[str, Any]) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def main() -> None:
    """Serve until the process is ended."""
    asked: dict[str, Any] = json.loads(sys.argv[1])
    engine = importlib.import_module(asked["engine"]).Engine(asked)
    Handler.engine, Handler.name = engine, asked["name"]
    ThreadingHTTPServer(("127.0.0.1", asked["port"]), Handler).serve_forever()


if __name__ == "__main__":
    main()
