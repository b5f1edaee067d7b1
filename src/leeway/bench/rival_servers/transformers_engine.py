"""transformers' generate for `token_server`, run by the rival's Python: plain and assisted.

A GGUF is unpacked to 16 bits at load, three to six times the bytes of a 4-bit file for each token.
Text comes as the library hands tokens to a streamer. Imports nothing of this project.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

LOOKUP_TOKENS, MATCH_TOKENS = 10, 2  # those of the library's own documentation
_KNOWN = (
    *("prompt", "model", "stream", "stream_options", "max_tokens", "temperature", "top_p", "top_k"),
    *("min_p", "seed", "ignore_eos"),
)


class Engine:
    """A model with its tokenizer, asked by one request at a time."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self.torch = importlib.import_module("torch")
        self.library = importlib.import_module("transformers")
        self.torch.set_num_threads(asked["threads"])
        self.model = self._load(asked["model"])
        path = Path(asked["model"])
        self.tokenizer = self.library.AutoTokenizer.from_pretrained(
            str(path.parent), gguf_file=path.name
        )
        self.assistance: dict[str, Any] = {}
        if asked["speculation"] == "ngram":
            self.assistance["prompt_lookup_num_tokens"] = asked["draft_tokens"] or LOOKUP_TOKENS
            self.assistance["max_matching_ngram_size"] = asked["match_tokens"] or MATCH_TOKENS
        elif asked["speculation"] == "draft":
            draft = self._load(asked["draft_model"])
            if asked["draft_tokens"] is not None:
                draft.generation_config.num_assistant_tokens = asked["draft_tokens"]
                draft.generation_config.num_assistant_tokens_schedule = "constant"
            self.assistance["assistant_model"] = draft

    def _load(self, model: str) -> Any:  # noqa: ANN401
        path = Path(model)
        loaded = self.library.AutoModelForCausalLM.from_pretrained(
            str(path.parent), gguf_file=path.name, dtype=self.torch.bfloat16
        )
        return loaded.eval()

    def refusal(self, body: dict[str, Any]) -> str | None:
        """Return why a body cannot be answered; None if it can."""
        unknown = [name for name in body if name not in _KNOWN]
        if unknown:
            return f"fields not supported: {', '.join(unknown)}"
        return None

    def generate(self, body: dict[str, Any], on_text: Any) -> tuple[int, int]:  # noqa: ANN401
        """Give each piece of text to `on_text`; return tokens read and written."""
        prompt = body["prompt"]
        ids = prompt if isinstance(prompt, list) else self.tokenizer.encode(prompt)
        asked: dict[str, Any] = {"max_new_tokens": body.get("max_tokens", 16)}
        if body.get("ignore_eos", False):
            asked["min_new_tokens"] = asked["max_new_tokens"]  # the library then gives no end
        temperature = body.get("temperature", 1.0)
        asked["do_sample"] = temperature > 0
        asked["repetition_penalty"] = 1.0  # a file beside the model may say otherwise
        if asked["do_sample"]:
            asked |= {"temperature": temperature, "top_p": body.get("top_p", 1.0)}
            asked |= {"top_k": body.get("top_k") or 0, "min_p": body.get("min_p") or None}
            self.torch.manual_seed(body.get("seed") or 0)
        tensor = self.torch.tensor([ids])
        with self.torch.inference_mode():
            whole = self.model.generate(
                tensor,
                attention_mask=self.torch.ones_like(tensor),
                streamer=self._streamer(on_text),
                pad_token_id=0,
                **asked,
                **self.assistance,
            )
        return len(ids), int(whole.shape[1]) - len(ids)

    def _streamer(self, on_text: Any) -> Any:  # noqa: ANN401
        """Return a streamer that hands each token on as text at once."""
        tokenizer = self.tokenizer
        base: Any = self.library.generation.streamers.BaseStreamer

        class Streamer(base):  # type: ignore[misc]
            def __init__(self) -> None:
                self.has_prompt = False
                self.pending: list[int] = []

            def put(self, value: Any) -> None:  # noqa: ANN401
                if not self.has_prompt:  # the library hands over the prompt first
                    self.has_prompt = True
                    return
                self.pending += value.reshape(-1).tolist()
                text = tokenizer.decode(self.pending, skip_special_tokens=False)
                if text and not text.endswith("\ufffd"):
                    on_text(text)
                    self.pending = []

            def end(self) -> None:
                """Leave what is no whole character."""

        return Streamer()
