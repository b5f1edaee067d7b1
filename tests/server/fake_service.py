"""A scripted engine service: every token is a byte, every answer is known beforehand.

Obeys the protocol that the server relies on, with what a real engine cannot be made to do on
demand: fail in the middle, stay silent, stop between two given deltas.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from leeway.acceptance.registry import build_law
from leeway.core.config import EngineConfig
from leeway.core.errors import BackendError, ContextLengthError, RequestError
from leeway.core.receipt import Receipt, Tally
from leeway.core.types import FinishReason, OutputDelta, Provenance, TokenLogprob
from leeway.sampling.params import check_sampling

REPLY = "Hello, wörld"


class ByteTokenizer:
    vocab_size = 256

    def encode(self, text, *, add_special=True):
        return list(text.encode())

    def decode(self, token_ids, *, with_special=False):
        return bytes(token_ids).decode(errors="replace")

    def token_bytes(self, token_id):
        return bytes([token_id])

    def token_text(self, token_id):
        return f"<{token_id}>"


class PlainTemplate:
    tool_dialect = None
    reasons = False

    def render(self, messages, *, add_generation_prompt=True):
        if any("REFUSE" in message["content"] for message in messages):
            raise RequestError("the model's chat template refuses these messages", param="messages")
        return "".join(f"{one['role']}: {one['content']}\n" for one in messages) + "assistant: "


@dataclass
class FakeBackend:
    context_len: int = 200
    capacity_tokens: int = 410
    block_len: int = 4

    def describe(self):
        return {"backend": "scripted", "context_len": self.context_len}


class FakeDrafter:
    name = "ngram"


@dataclass
class FakeParts:
    model_name: str = "scripted-model"
    tokenizer: ByteTokenizer = field(default_factory=ByteTokenizer)
    chat_template: PlainTemplate = field(default_factory=PlainTemplate)
    backend: FakeBackend = field(default_factory=FakeBackend)
    drafter: FakeDrafter = field(default_factory=FakeDrafter)
    drafter_settings: dict = field(default_factory=dict)
    self_check: None = None


class FakeEngine:
    def __init__(self, config):
        self.config = config
        self.parts = FakeParts()
        self.law = build_law(config.acceptance)
        self.totals = {}
        self.num_running = 0

    def build_law(self, acceptance):
        return self.law if acceptance is None else build_law(acceptance)

    def compile_grammar(self, grammar):
        self.compiled = grammar

    def law_of(self, request):
        return self.build_law(request.acceptance)

    def status(self):
        return {
            "num_requests_running": self.num_running,
            "num_requests_waiting": 0,
            "kv_cache_usage": self.num_running / 8,
        }


class FakeService:
    """Answers every request with `reply(prompt)`, in blocks of up to k + 1 bytes.

    Attributes:
        fail_after: number of deltas after which a stream fails with `failure`.
        gate: if set, gives the semaphore of a prompt, of which every delta takes one permit.
        requests: all that came.
        closed: ids of requests whose stream was closed before its end.
    """

    def __init__(self, config=None, *, state="ready"):
        self.state = state
        self.error = None
        self.engine = FakeEngine(config or EngineConfig())
        self.reply = lambda prompt: REPLY
        self.fail_after = None
        self.failure = BackendError("logits are not finite")
        self.gate = None
        self.requests = []
        self.receipts = []
        self.closed = []

    @property
    def num_open(self):
        return self.engine.num_running

    def start(self):
        self.state = "ready"

    def drain(self):
        if self.state == "ready":
            self.state = "draining"

    def stop(self, drain_timeout_s=0.0):
        self.state = "stopped"

    async def stream(self, request):
        self._check(request)
        self.requests.append(request)
        self.engine.num_running += 1
        is_finished = False
        try:
            for index, delta in enumerate(self._deltas(request)):
                if index == self.fail_after:
                    raise self.failure
                if self.gate is not None:
                    await self.gate(bytes(request.prompt_token_ids).decode()).acquire()
                await asyncio.sleep(0)
                is_finished = delta.finish_reason is not None
                yield delta
        finally:
            self.engine.num_running -= 1
            if not is_finished:
                self.closed.append(request.request_id)

    def _check(self, request):
        check_sampling(request.sampling, ByteTokenizer.vocab_size)
        context_len = self.engine.parts.backend.context_len
        if len(request.prompt_token_ids) >= context_len:
            raise ContextLengthError(f"the context is {context_len}", param="prompt")

    def _deltas(self, request):
        most = self.engine.config.num_speculative_tokens
        asked = request.num_speculative_tokens
        num_drafted = most if asked is None else asked
        whole = self.reply(bytes(request.prompt_token_ids).decode()).encode()
        token_ids = whole[: request.sampling.max_tokens]
        is_cut = len(token_ids) < len(whole)
        receipt = self._receipt(request, num_drafted)
        begin, text_begin, size = 0, 0, 1
        while begin < len(token_ids):
            block = token_ids[begin : begin + size]
            drafted = num_drafted if begin else 0
            self._count(receipt, drafted, block)
            begin += len(block)
            size = num_drafted + 1
            is_last = begin == len(token_ids)
            text = token_ids[:begin].decode(errors="ignore")
            reason = (FinishReason.LENGTH if is_cut else FinishReason.STOP) if is_last else None
            if is_last:
                self._total(receipt)
            entries, prompt_entries = self._logprobs(request, block, begin == len(block))
            yield OutputDelta(
                request.request_id,
                tuple(block),
                (Provenance.ACCEPTED,) * (len(block) - 1) + (Provenance.RECOVERED,),
                text[text_begin:],
                finish_reason=reason,
                receipt=receipt if is_last else None,
                logprobs=entries,
                prompt_logprobs=prompt_entries,
            )
            text_begin = len(text)

    def _logprobs(self, request, block, is_first):
        """Give the token with id i the log probability -i / 256."""
        entries, prompt_entries = (), ()
        if request.logprobs is not None:
            entries = tuple(self._entry(one, request.logprobs) for one in block)
        if request.prompt_logprobs is not None and is_first:
            rest = request.prompt_token_ids[1:]
            prompt_entries = (None, *(self._entry(one, request.prompt_logprobs) for one in rest))
        return entries, prompt_entries

    def _entry(self, token_id, num_top):
        top = tuple((ord("0") + index, -index / 4) for index in range(num_top))
        return TokenLogprob(token_id, -token_id / 256, top)

    def _receipt(self, request, num_drafted):
        law = self.engine.build_law(request.acceptance)
        return Receipt(
            law=law.info.name,
            options=dict(law.options),
            guarantee=law.info.guarantee,
            verifier=law.verifier,
            drafter="ngram" if num_drafted else "none",
            num_speculative_tokens=num_drafted,
            seed=7 if request.sampling.seed is None else request.sampling.seed,
            temperature=request.sampling.temperature,
            tally=Tally(num_prompt_tokens=len(request.prompt_token_ids)),
            per_step=(),
        )

    def _count(self, receipt, drafted, block):
        tally = receipt.tally
        accepted = len(block) - 1
        before = tally.num_decided
        tally.add_step(drafted, accepted)
        object.__setattr__(receipt, "per_step", (*receipt.per_step, (drafted, accepted)))
        tally.num_output_tokens += len(block)
        tally.num_deferred = tally.num_recovered_tokens
        decided = tally.num_decided - before
        tally.draft_tv_sum += 0.25 * decided
        tally.target_entropy_sum += 1.5 * decided
        if receipt.guarantee == "none":
            tally.loss_tv_sum += 0.125 * decided
            tally.loss_kl_sum += 0.0625 * decided
            tally.loss_tv_max, tally.loss_kl_max = 0.125, 0.0625

    def _total(self, receipt):
        receipt.tally.check()
        self.receipts.append(receipt)
        key = (receipt.law, receipt.drafter)
        self.engine.totals.setdefault(key, Tally()).add(receipt.tally)
