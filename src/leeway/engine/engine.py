"""The engine: schedule, draft, verify, judge, commit, emit; once a step, for all sequences.

In: requests. Out: deltas to stream, the last of each request with its receipt. Single-threaded:
whoever owns the engine calls `step` from one thread (`service` does so for the server, `LLM` for
offline use). Knows nothing of HTTP or of where weights came from.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from leeway.acceptance.base import Guarantee, Law
from leeway.acceptance.limits import limit_law
from leeway.acceptance.registry import build_law
from leeway.backends.base import Backend, ForwardOutput, SequenceInput
from leeway.core.config import EngineConfig
from leeway.core.errors import LeewayError, RequestError
from leeway.core.limits import Limits
from leeway.core.receipt import Receipt, Tally
from leeway.core.rng import Coins, KeyedCoins
from leeway.core.types import (
    Acceptance,
    Draft,
    FinishReason,
    FloatArray,
    Grammar,
    OutputDelta,
    Request,
    SamplingParams,
)
from leeway.drafters.base import Drafter, Observation
from leeway.engine.commit import commit, read_only
from leeway.engine.compatibility import check_draft_rows
from leeway.engine.drafting import draft_blocks
from leeway.engine.limits import check_limits, start_limits
from leeway.engine.log_line import log_lossy
from leeway.engine.logprobs import take_prompt_logprobs, with_logprobs
from leeway.engine.prefix_cache import PrefixCache
from leeway.engine.self_check import SelfCheck, demotion_of
from leeway.engine.verify import Judgement, judge
from leeway.grammar.compiler import GrammarCompiler, Vocabulary, check_beside_grammar
from leeway.sampling.logprobs import check_logprobs
from leeway.sampling.params import check_sampling
from leeway.scheduler.draft_length import DraftLength
from leeway.scheduler.scheduler import Plan, Scheduler
from leeway.scheduler.sequence import Sequence
from leeway.text.chat_template import ChatTemplate
from leeway.text.detokenizer import Detokenizer
from leeway.text.stop_strings import StopStrings
from leeway.text.tokenizer import Tokenizer

GREEDY = Acceptance("greedy_match")


@dataclass(frozen=True, slots=True)
class Parts:
    """What an engine is made of; `engine.load` builds it from a configuration.

    `make_coins` turns a seed into coins; tests replace it to enumerate every outcome. `judge`
    decides one block; bench replaces it to time it. `self_check` is what was found at load.
    """

    model_name: str
    backend: Backend
    tokenizer: Tokenizer
    chat_template: ChatTemplate
    drafter: Drafter
    make_coins: Callable[[int], Coins] = KeyedCoins
    drafter_settings: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    self_check: SelfCheck | None = None
    judge: Callable[[Sequence, Draft, FloatArray], Judgement] = judge


class Engine:
    """Decodes many requests at once under their laws."""

    def __init__(self, parts: Parts, config: EngineConfig) -> None:
        """Check the configured law; `draft_length` holds for requests added from then on.

        Raises:
            LawError: the law is unknown, out of range, or cannot work with this drafter.
        """
        self.parts = parts
        self.config = config
        self.draft_length = DraftLength.of(config, parts.drafter.name)
        self.totals: dict[tuple[str, str], Tally] = {}
        self._eos_token_ids = frozenset(parts.tokenizer.eos_token_ids)
        self._grammars = GrammarCompiler(self._read_vocabulary)
        self._prefixes = PrefixCache(
            parts.backend, parts.drafter, is_on=config.prefix_cache == "on"
        )
        self._scheduler = Scheduler(
            parts.backend,
            config.max_num_seqs,
            on_begin=self._prefixes.take,
            on_preempt=self._suspend,
        )
        self._sequences: dict[str, Sequence] = {}
        self.law = self.build_law(config.acceptance)

    @property
    def has_work(self) -> bool:
        """Whether any request is waiting or running."""
        return bool(self._sequences)

    def request_ids(self) -> tuple[str, ...]:
        """Return the requests that are waiting or running."""
        return tuple(self._sequences)

    def build_law(self, acceptance: Acceptance | None) -> Law:
        """Return the law asked for, or the configured one.

        Raises:
            LawError: unknown, out of range, or in need of draft rows that the drafter lacks.
        """
        if acceptance is None:
            return self.law
        law = build_law(acceptance)
        drafter = self.parts.drafter
        check_draft_rows(law, drafter.name, gives_rows=drafter.gives_rows)
        return law

    def check(self, request: Request) -> None:
        """Raise what `add` would raise; changes nothing, safe from any thread."""
        check_sampling(request.sampling, self.parts.backend.vocab_size)
        if not request.prompt_token_ids:
            raise RequestError("the prompt is empty; give at least one token", param="prompt")
        vocab_size = self.parts.backend.vocab_size
        for token_id in request.prompt_token_ids:
            if not 0 <= token_id < vocab_size:
                raise RequestError(
                    f"the prompt has the token id {token_id}; allowed: 0 to {vocab_size - 1}",
                    param="prompt",
                )
        most = self.config.num_speculative_tokens
        asked = request.num_speculative_tokens
        if asked is not None and not 0 <= asked <= most:
            raise RequestError(
                f"num_speculative_tokens is {asked}; allowed: 0 (speculation off) to {most}, the "
                "limit set at start by --num-speculative-tokens",
                param="num_speculative_tokens",
            )
        check_logprobs(request)
        if request.sampling.min_tokens and len(self._end_ids(request.sampling)) == vocab_size:
            raise RequestError(
                f"min_tokens is {request.sampling.min_tokens} and every token ends the answer; "
                "allowed: fewer stop_token_ids, or min_tokens 0",
                param="min_tokens",
            )
        check_limits(self.law_of(request), self.limits_of(request), request.sampling)
        self._scheduler.check_fits(request)
        if request.grammar is not None:
            check_beside_grammar(request.grammar, request.sampling)
            self.compile_grammar(request.grammar)

    def compile_grammar(self, grammar: Grammar) -> None:
        """Compile a grammar ahead of its request; safe from any thread.

        Raises:
            RequestError: it is malformed, or no answer of this model has this form.
        """
        self._grammars.compile(grammar)

    def law_of(self, request: Request) -> Law:
        """Return the law that will judge a request. Raises what `build_law` raises."""
        law = _engage(self.build_law(request.acceptance), request)
        return limit_law(law, self.limits_of(request))

    def limits_of(self, request: Request) -> Limits:
        """Return how far a lossy law may go with a request."""
        return self.config.limits if request.limits is None else request.limits

    def add(self, request: Request) -> None:
        """Queue a request.

        Raises:
            RequestError: a field is out of range, or the request can never fit.
        """
        self.check(request)
        assert request.request_id not in self._sequences
        seed = request.sampling.seed
        seed = secrets.randbits(53) if seed is None else seed
        asked = request.num_speculative_tokens
        law, limits = self.law_of(request), self.limits_of(request)
        sequence = Sequence(
            request=request,
            law=law,
            requested_law=(request.acceptance or self.config.acceptance).law,
            num_speculative_tokens=self.config.num_speculative_tokens if asked is None else asked,
            seed=seed,
            coins=self.parts.make_coins(seed),
            detokenizer=Detokenizer(self.parts.tokenizer),
            stop_strings=StopStrings(request.sampling.stop),
            draft_length=self.draft_length,
            end_token_ids=self._end_ids(request.sampling),
            grammar=None if request.grammar is None else self._grammars.start(request.grammar),
            limits=limits,
            limit_state=start_limits(law, limits, self.parts.tokenizer, request),
            demotion=demotion_of(self.parts.self_check, self.config, request),
        )
        self._sequences[request.request_id] = sequence
        self._scheduler.add(sequence)

    def cancel(self, request_id: str, error: LeewayError | None = None) -> OutputDelta | None:
        """End a request now, free its cache, and return its last delta; None if unknown.

        With an error the request counts as failed by it.
        """
        sequence = self._sequences.get(request_id)
        if sequence is None:
            return None
        reason = FinishReason.CANCELLED if error is None else FinishReason.ERROR
        return self._end(sequence, OutputDelta(request_id, (), (), "", error=error), reason)

    def step(self) -> list[OutputDelta]:
        """Run one step for every running sequence and return what it delivered."""
        started = time.perf_counter()
        plan = self._scheduler.plan()
        if not plan.members():
            return []
        deltas = self._run(plan)
        self._share_time(plan, time.perf_counter() - started)
        return [self._finish(delta) if delta.finish_reason else delta for delta in deltas]

    def status(self) -> dict[str, Any]:
        """Return what /health and /metrics show of load and capacity."""
        backend = self.parts.backend
        reserved = self._scheduler.num_reserved_tokens
        return {
            "num_requests_running": self._scheduler.num_running,
            "num_requests_waiting": self._scheduler.num_waiting,
            "kv_capacity_tokens": backend.capacity_tokens,
            "kv_reserved_tokens": reserved,
            "kv_cache_usage": reserved / backend.capacity_tokens,
            "prefix_cache": self.config.prefix_cache,
        }

    def _run(self, plan: Plan) -> list[OutputDelta]:
        """Draft, verify, judge, commit; what fails together is tried again one by one."""
        try:
            drafts = draft_blocks(self.parts.drafter, plan, self.config.draft_temperature)
            output = self._forward(plan, drafts)
        except LeewayError as error:
            parts = plan.split()
            if len(parts) == 1:
                return [self._fail(one, error) for one in plan.members()]
            return [delta for part in parts for delta in self._run(part)]
        return self._judge_and_commit(plan, drafts, output)

    def _forward(self, plan: Plan, drafts: list[Draft]) -> ForwardOutput:
        """Run the target on every block and every prompt chunk."""
        inputs = []
        for one, draft in zip(plan.decoding, drafts, strict=True):
            assert one.handle is not None
            block = (one.token_ids[-1], *draft.token_ids)
            inputs.append(SequenceInput(one.handle, block, len(block)))
        for one, chunk_len in plan.prefilling:
            assert one.handle is not None
            chunk = one.token_ids[one.num_cached : one.num_cached + chunk_len]
            inputs.append(SequenceInput(one.handle, chunk, one.num_prefill_rows(chunk_len)))
        return self.parts.backend.forward(inputs)

    def _judge_and_commit(
        self, plan: Plan, drafts: list[Draft], output: ForwardOutput
    ) -> list[OutputDelta]:
        """Judge every block, commit what is kept, roll the cache back behind it."""
        backend = self.parts.backend
        deltas = []
        num_new: list[tuple[Sequence, int]] = []
        row = 0
        for one, draft in zip(plan.decoding, drafts, strict=True):
            num_rows = len(draft.token_ids) + 1
            deltas.append(self._settle(one, draft, output.logits[row : row + num_rows]))
            row += num_rows
            assert one.handle is not None
            one.num_cached = len(one.token_ids) - 1
            backend.truncate(one.handle, one.num_cached)
            num_new.append((one, num_rows))
        for one, chunk_len in plan.prefilling:
            rows = output.logits[row : row + one.num_prefill_rows(chunk_len)]
            row += len(rows)
            take_prompt_logprobs(one, rows)
            one.num_cached += chunk_len
            if one.num_missing == 0:
                deltas.append(self._settle(one, Draft(()), rows[-1:]))
            num_new.append((one, chunk_len))
        if self.parts.drafter.reads_hidden:
            self.parts.drafter.observe(_observations(num_new, output.hidden))
        for one, _ in plan.prefilling:
            if one.finish_reason is None:
                self._prefixes.share(one)
        return deltas

    def _settle(self, sequence: Sequence, draft: Draft, logits: FloatArray) -> OutputDelta:
        if sequence.sampling.max_tokens == 0:
            return with_logprobs(sequence, read_only(sequence), logits)
        try:
            judgement = self.parts.judge(sequence, draft, logits)
        except LeewayError as error:
            return self._fail(sequence, error)
        context_len = self.parts.backend.context_len
        delta = commit(sequence, judgement, self._eos_token_ids, context_len)
        return with_logprobs(sequence, delta, logits)

    def _read_vocabulary(self) -> Vocabulary:
        tokenizer, vocab_size = self.parts.tokenizer, self.parts.backend.vocab_size

        def encode(text: str) -> list[int]:
            return tokenizer.encode(text, add_special=False)

        return Vocabulary(tokenizer.token_bytes, encode, vocab_size, tokenizer.eos_token_ids)

    def _end_ids(self, sampling: SamplingParams) -> frozenset[int]:
        """Return what may not be drawn before `min_tokens`."""
        if sampling.min_tokens == 0:
            return frozenset()
        eos = frozenset() if sampling.ignore_eos else self._eos_token_ids
        return eos.union(sampling.stop_token_ids)

    def _fail(self, sequence: Sequence, error: LeewayError) -> OutputDelta:
        """Return the last delta of a sequence that cannot go on; the others do."""
        reason = FinishReason.ERROR
        sequence.finish_reason = reason
        return OutputDelta(sequence.request.request_id, (), (), "", reason, error)

    def _share_time(self, plan: Plan, seconds: float) -> None:
        for one in plan.decoding:
            one.tally.decode_s += seconds
        for one, _ in plan.prefilling:
            one.tally.prefill_s += seconds

    def _finish(self, delta: OutputDelta) -> OutputDelta:
        assert delta.finish_reason is not None
        return self._end(self._sequences[delta.request_id], delta, delta.finish_reason)

    def _suspend(self, sequence: Sequence) -> None:
        """Keep for later what the sequence has cached, before its cache is given to others."""
        self._prefixes.share(sequence)
        self.parts.drafter.suspend(sequence.request.request_id)

    def _end(self, sequence: Sequence, delta: OutputDelta, reason: FinishReason) -> OutputDelta:
        """Free everything the request holds, count and log it, attach its receipt."""
        del self._sequences[delta.request_id]
        if reason is not FinishReason.ERROR:
            self._prefixes.share(sequence)
        self._scheduler.remove(sequence)
        if sequence.limit_state is not None:
            sequence.tally.add_limits(sequence.limits, sequence.limit_state.spent)
        self.parts.drafter.forget(delta.request_id)
        drafter = self.parts.drafter
        scale = self.config.draft_temperature if drafter.gives_rows else 1.0
        receipt = sequence.receipt(drafter.name, scale)
        self._add_to_totals(receipt)
        log_lossy(receipt, delta.request_id)
        return replace(delta, finish_reason=reason, receipt=receipt)

    def _add_to_totals(self, receipt: Receipt) -> None:
        """Replace the totals, so that another thread that reads them never sees half a sum."""
        key = (receipt.law, receipt.drafter)
        total = Tally()
        total.add(self.totals.get(key, Tally()))
        total.add(receipt.tally)
        self.totals = {**self.totals, key: total}


def _observations(num_new: list[tuple[Sequence, int]], hidden: FloatArray) -> list[Observation]:
    """Return the hidden states of cached committed tokens, of requests that go on and draft.

    Args:
        num_new: sequences in the order of the forward, with the number of tokens each was given.
        hidden: [sum of these numbers, hidden_size].
    """
    seen = []
    row = 0
    for one, num_tokens in num_new:
        if one.finish_reason is None and one.is_drafting:
            start = one.num_observed
            rows = hidden[row : row + one.num_cached - start]
            seen.append(Observation(one.request.request_id, one.token_ids, start, rows))
            one.num_observed = one.num_cached
        row += num_tokens
    return seen


def _engage(law: Law, request: Request) -> Law:
    """Return the law that will judge: at temperature 0 a lossy law acts only on raw rows."""
    is_lossy = law.info.guarantee is Guarantee.NONE
    if request.sampling.temperature == 0 and is_lossy and not law.reads_raw_rows:
        return build_law(GREEDY)
    return law
