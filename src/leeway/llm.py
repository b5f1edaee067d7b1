"""LLM: the offline Python face of the engine.

In: prompts or messages. Out: completions with receipts, or deltas as they are decoded. Steps the
engine in the caller's own thread; for serving see `server`.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

from leeway.core.config import EngineConfig, engine_config
from leeway.core.errors import ConfigError, RequestError
from leeway.core.limits import Limits
from leeway.core.receipt import Receipt
from leeway.core.types import (
    Acceptance,
    FinishReason,
    Grammar,
    OutputDelta,
    Provenance,
    Request,
    SamplingParams,
    TokenLogprob,
)
from leeway.engine.engine import Engine
from leeway.engine.load import OnProgress, load_engine

Prompt = str | Sequence[int]
Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Completion:
    """One finished answer.

    `provenance` has one entry an output token; so has `logprobs`, and `prompt_logprobs` one a
    prompt token (None for the first), where they were asked for.
    """

    prompt_token_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    provenance: tuple[Provenance, ...]
    text: str
    finish_reason: FinishReason
    receipt: Receipt
    logprobs: tuple[TokenLogprob, ...] = ()
    prompt_logprobs: tuple[TokenLogprob | None, ...] = ()


class LLM:
    """A model ready to decode.

    Example:
        >>> llm = LLM("smollm2-135m-instruct", typical_threshold=0.3)
        >>> answer = llm.chat([{"role": "user", "content": "What is rain?"}])
        >>> answer.text, answer.receipt.to_dict()["kept_draft_rate"]
    """

    def __init__(
        self,
        model: str | EngineConfig | None = None,
        *,
        on_progress: OnProgress | None = None,
        **settings: object,
    ) -> None:
        """Load a model.

        Args:
            model: a name that `leeway models` lists, a GGUF file, a safetensors folder, or a whole
                configuration; the default model if None.
            on_progress: told (what, done bytes, total bytes) while a model is fetched.
            **settings: fields of `EngineConfig`, or settings such as `typical_threshold`.

        Raises:
            LeewayError: the model cannot be had, or a setting is refused.
        """
        if isinstance(model, EngineConfig):
            if settings:
                raise ConfigError(
                    f"{', '.join(sorted(settings))} beside a whole EngineConfig would be ignored; "
                    "put them into the configuration, or give the model's name and settings"
                )
            config = model
        else:
            given = settings if model is None else {"model": model, **settings}
            config = engine_config(**given)
        self._take(load_engine(config, on_progress))

    @classmethod
    def from_engine(cls, engine: Engine) -> LLM:
        """Return the face of an engine that is already built."""
        llm = cls.__new__(cls)
        llm._take(engine)
        return llm

    def encode(self, prompt: Prompt) -> tuple[int, ...]:
        """Return the token ids of a raw prompt; ids are taken as they are."""
        if isinstance(prompt, str):
            return tuple(self.engine.parts.tokenizer.encode(prompt))
        return tuple(prompt)

    def encode_messages(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Return the token ids of a conversation under the model's chat template.

        Raises:
            RequestError: the messages are not a list of role and content, or the template refuses.
        """
        if isinstance(messages, str):
            raise RequestError(
                "messages is text; give a list such as [{'role': 'user', 'content': TEXT}], or use "
                "generate for a raw prompt",
                param="messages",
            )
        text = self.engine.parts.chat_template.render(messages)
        return tuple(self.engine.parts.tokenizer.encode(text, add_special=False))

    def generate(
        self,
        prompts: str | Sequence[Prompt],
        sampling: SamplingParams | None = None,
        acceptance: Acceptance | None = None,
        *,
        logprobs: int | None = None,
        prompt_logprobs: int | None = None,
        limits: Limits | None = None,
        grammar: Grammar | None = None,
    ) -> list[Completion]:
        """Continue raw prompts (text or token ids), all at once, in the order given.

        `logprobs` and `prompt_logprobs` ask for log probabilities under the target's raw rows, of
        output and prompt tokens, with so many of the likeliest tokens; with `max_tokens` 0 the
        prompts are only read. `limits` None takes the engine's own. `grammar` is the form that the
        answers must have.

        Raises:
            RequestError: a parameter is out of range or a prompt cannot fit; none was started.
        """
        each = [prompts] if isinstance(prompts, str) else prompts
        sampling = sampling or SamplingParams()
        requests = [
            self._request(
                self.encode(prompt), sampling, acceptance, limits, logprobs, prompt_logprobs
            )
            for prompt in each
        ]
        return self._complete([replace(one, grammar=grammar) for one in requests])

    def chat(
        self,
        messages: Sequence[Message],
        sampling: SamplingParams | None = None,
        acceptance: Acceptance | None = None,
        *,
        logprobs: int | None = None,
        limits: Limits | None = None,
        grammar: Grammar | None = None,
    ) -> Completion:
        """Answer a conversation; `logprobs`, `limits` and `grammar` as in `generate`."""
        prompt = self.encode_messages(messages)
        request = self._request(prompt, sampling or SamplingParams(), acceptance, limits, logprobs)
        return self._complete([replace(request, grammar=grammar)])[0]

    def stream(
        self,
        prompt_token_ids: Sequence[int],
        sampling: SamplingParams | None = None,
        acceptance: Acceptance | None = None,
        num_speculative_tokens: int | None = None,
    ) -> Iterator[OutputDelta]:
        """Yield deltas of one prompt; stopping early cancels it."""
        request = Request(
            f"llm-{next(self._numbers)}",
            tuple(prompt_token_ids),
            sampling or SamplingParams(),
            acceptance,
            num_speculative_tokens,
        )
        self.engine.add(request)
        self._inboxes[request.request_id] = deque()
        try:
            delta = self._next(request.request_id)
            while delta.finish_reason is None:
                yield delta
                delta = self._next(request.request_id)
            yield delta
        finally:
            self._drop(request.request_id)

    def close(self) -> None:
        """Cancel whatever is left; the model's memory goes with the object."""
        for request_id in self.engine.request_ids():
            self.engine.cancel(request_id)

    def __enter__(self) -> LLM:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _take(self, engine: Engine) -> None:
        self.engine = engine
        self._numbers = itertools.count()
        self._inboxes: dict[str, deque[OutputDelta]] = {}

    def _request(  # noqa: PLR0917
        self,
        prompt: tuple[int, ...],
        sampling: SamplingParams,
        acceptance: Acceptance | None,
        limits: Limits | None,
        logprobs: int | None = None,
        prompt_logprobs: int | None = None,
    ) -> Request:
        return Request(
            f"llm-{next(self._numbers)}",
            prompt,
            sampling,
            acceptance,
            logprobs=logprobs,
            prompt_logprobs=prompt_logprobs,
            limits=limits,
        )

    def _complete(self, requests: Sequence[Request]) -> list[Completion]:
        for request in requests:
            self.engine.check(request)
        for request in requests:
            self.engine.add(request)
            self._inboxes[request.request_id] = deque()
        deltas: dict[str, list[OutputDelta]] = {one.request_id: [] for one in requests}
        try:
            for request_id, received in deltas.items():
                while not received or received[-1].finish_reason is None:
                    received.append(self._next(request_id))
        finally:
            for request in requests:
                self._drop(request.request_id)
        return [_join(one, deltas[one.request_id]) for one in requests]

    def _next(self, request_id: str) -> OutputDelta:
        """Step the engine until this request has a delta; others' deltas wait in their inboxes."""
        inbox = self._inboxes[request_id]
        while not inbox:
            for delta in self.engine.step():
                if delta.request_id in self._inboxes:
                    self._inboxes[delta.request_id].append(delta)
        delta = inbox.popleft()
        if delta.error is not None:
            raise delta.error
        return delta

    def _drop(self, request_id: str) -> None:
        del self._inboxes[request_id]
        self.engine.cancel(request_id)


def _join(request: Request, deltas: Sequence[OutputDelta]) -> Completion:
    last = deltas[-1]
    assert last.finish_reason is not None and last.receipt is not None
    return Completion(
        prompt_token_ids=request.prompt_token_ids,
        token_ids=tuple(token_id for delta in deltas for token_id in delta.token_ids),
        provenance=tuple(origin for delta in deltas for origin in delta.provenance),
        text="".join(delta.text for delta in deltas),
        finish_reason=last.finish_reason,
        receipt=last.receipt,
        logprobs=tuple(entry for delta in deltas for entry in delta.logprobs),
        prompt_logprobs=deltas[0].prompt_logprobs,
    )
