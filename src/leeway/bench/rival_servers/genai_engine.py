"""OpenVINO GenAI's pipeline for `token_server`, run by the rival's Python.

Text comes as the library hands tokens to a streamer, counts from its own metrics. Imports nothing
of this project.
"""

from __future__ import annotations

import importlib
from typing import Any

DRAFT_TOKENS, MATCH_TOKENS = 5, 3  # those of the library's own sample of prompt lookup
_KNOWN = (
    *("prompt", "model", "stream", "stream_options", "max_tokens", "temperature", "top_p", "top_k"),
    *("min_p", "seed", "ignore_eos"),
)


class Engine:
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

    def generate(self, body: dict[str, Any], on_text: Any) -> tuple[int, int]:  # noqa: ANN401
        """Give each piece of text to `on_text`; return tokens read and written."""
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
        result = self.pipeline.generate(prompt, config, self._streamer(on_text))
        metrics = result.perf_metrics
        return metrics.get_num_input_tokens(), metrics.get_num_generated_tokens()

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
