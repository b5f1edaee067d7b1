"""Serves a GGUF or a converted folder by OpenVINO GenAI, which has no server of its own.

Run by the rival's Python, `python openvino_genai_server.py '{"model": PATH, "name": NAME,
"port": N, "threads": N, "speculation": "none" or "ngram", "draft_tokens": N or null,
"match_tokens": N or null}'`. One request at a
time, as a stream of text completions; prompts as token ids or text. Chunks come as the library
hands tokens to a streamer, counts from its own metrics. Imports nothing of this project.
"""

from __future__ import annotations

import importlib
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DRAFT_TOKENS, MATCH_TOKENS = 5, 3  # those of the library's own sample of prompt lookup
_KNOWN = (
    *("prompt", "model", "stream", "stream_options", "max_tokens", "temperature", "top_p", "top_k"),
    *("min_p", "seed", "ignore_eos"),
)


class Pipeline:
    """The library's pipeline, asked by one request at a time."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self.library = importlib.import_module("openvino_genai")
        self.openvino = importlib.import_module("openvino")
        self.numpy = importlib.import_module("numpy")
        self.is_looking_up = asked["speculation"] == "ngram"
        self.draft_tokens = asked["draft_tokens"] or DRAFT_TOKENS
        self.match_tokens = asked["match_tokens"] or MATCH_TOKENS
        properties: dict[str, Any] = {"INFERENCE_NUM_THREADS": asked["threads"]}
        if self.is_looking_up:
            properties["prompt_lookup"] = True
        self.pipeline = self.library.LLMPipeline(asked["model"], "CPU", **properties)
        self.lock = threading.Lock()

    def refusal(self, body: dict[str, Any]) -> str | None:
        """Return why a body cannot be answered; None if it can."""
        unknown = [name for name in body if name not in _KNOWN]
        if unknown:
            return f"fields not supported: {', '.join(unknown)}"
        if body.get("min_p"):
            return "min_p is not supported by the library"
        if self.is_looking_up and body.get("temperature", 1.0) > 0:
            return "prompt lookup is greedy here; use --temperature 0"
        return None

    def generate(self, body: dict[str, Any], on_text: Any) -> Any:  # noqa: ANN401
        """Return the library's result, having given each piece of text to `on_text`."""
        config = self.library.GenerationConfig()
        config.max_new_tokens = body.get("max_tokens", 16)
        config.ignore_eos = body.get("ignore_eos", False)
        config.apply_chat_template = False
        temperature = body.get("temperature", 1.0)
        config.do_sample = temperature > 0
        if config.do_sample:
            config.temperature = temperature
            config.top_p = body.get("top_p", 1.0)
            config.rng_seed = body.get("seed") or 0
            if body.get("top_k"):
                config.top_k = body["top_k"]
        if self.is_looking_up:
            config.num_assistant_tokens = self.draft_tokens
            config.max_ngram_size = self.match_tokens
        prompt = body["prompt"]
        if isinstance(prompt, list):
            ids = self.numpy.array([prompt], dtype=self.numpy.int64)
            mask = self.numpy.ones_like(ids)
            tensor = self.openvino.Tensor
            prompt = self.library.TokenizedInputs(tensor(ids), tensor(mask))
        return self.pipeline.generate(prompt, config, self._streamer(on_text))

    def _streamer(self, on_text: Any) -> Any:  # noqa: ANN401
        """Return a streamer without delay: the library's own holds the last tokens' text back."""
        tokenizer = self.pipeline.get_tokenizer()
        status = self.library.StreamingStatus.RUNNING
        base: Any = self.library.StreamerBase

        class Streamer(base):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.pending: list[int] = []

            def write(self, token: int | list[int]) -> Any:  # noqa: ANN401
                self.pending += token if isinstance(token, list) else [token]
                text = tokenizer.decode(self.pending, skip_special_tokens=False)
                if text and not text.endswith("\ufffd"):
                    on_text(text)
                    self.pending = []
                return status

            def end(self) -> None:
                """Leave what is no whole character."""

        return Streamer()


class Handler(BaseHTTPRequestHandler):
    """Answers requests; `pipeline` and `name` are set before it serves."""

    pipeline: Pipeline
    name: str

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """List the one model."""
        self._whole(200, {"object": "list", "data": [{"id": self.name, "object": "model"}]})

    def do_POST(self) -> None:
        """Stream a completion, or refuse."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        words = self.pipeline.refusal(body)
        if words is None and self.path != "/v1/completions":
            words = "only /v1/completions is served"
        if words is not None:
            self._whole(400, {"error": {"message": words}})
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        try:
            with self.pipeline.lock:
                self._stream(body)
        except RuntimeError as reason:
            self._event({"error": {"message": str(reason)[:300]}})

    def _stream(self, body: dict[str, Any]) -> None:
        def on_text(text: str) -> None:
            self._event({"choices": [{"index": 0, "text": text, "finish_reason": None}]})

        result = self.pipeline.generate(body, on_text)
        metrics = result.perf_metrics
        read, written = metrics.get_num_input_tokens(), metrics.get_num_generated_tokens()
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
    Handler.pipeline, Handler.name = Pipeline(asked), asked["name"]
    ThreadingHTTPServer(("127.0.0.1", asked["port"]), Handler).serve_forever()


if __name__ == "__main__":
    main()
