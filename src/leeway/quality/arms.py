"""Arms that answer many asks: an engine with a batch of them open, or a server with as many.

In: asks. Out: answers in the order in which they end, each with its receipt, its losses, or why
there is none. Scores nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Protocol

from leeway.bench.http_stream import Answer
from leeway.bench.ready_arm import ReadyArm
from leeway.bench.url_arm import UrlArm, law_fault, server_tally, told_of, told_receipt
from leeway.core.errors import LeewayError
from leeway.core.receipt import Receipt, Tally
from leeway.core.types import OutputDelta, Request
from leeway.quality.asks import Ask
from leeway.quality.loss_meter import Losses, LossWatch

_RECEIPT = (
    *("law", "requested_law", "options", "guarantee", "verifier"),
    *("drafter", "draft_length", "draft_temperature", "temperature"),
)
_NO_LENGTH = "the server gave no finish reason or no count of tokens"


@dataclass(frozen=True, slots=True)
class Answered:
    """What came of one ask.

    Attributes:
        error: why there is no answer; None if there is one. All behind it is empty then.
        finish_reason: as the OpenAI API names it.
        decode_s: time behind the first token.
        void: why what ran is not what the arm says.
        note: what a reader should know of the law that judged.
    """

    ask: Ask
    error: str | None
    text: str = ""
    finish_reason: str | None = None
    prompt_tokens: int = 0
    output_tokens: int = 0
    decode_s: float = 0.0
    receipt: dict[str, Any] = field(default_factory=dict)
    tally: Tally | None = None
    losses: Losses | None = None
    void: str | None = None
    note: str | None = None


class AnsweringArm(Protocol):
    """One way to answer."""

    @property
    def name(self) -> str:
        """The arm's name."""

    def answers(self, asks: Iterable[Ask]) -> Iterator[Answered]:
        """Yield what comes of each ask, as it ends."""


class EngineArm:
    """An arm of this process: as many asks open at once as its engine runs."""

    def __init__(self, arm: ReadyArm) -> None:
        """Watch the arm's losses; the arm itself stays as it is."""
        self.arm = arm
        self._watch = LossWatch()
        self._engine = self._watch.watching(arm.engine)

    @property
    def name(self) -> str:
        """The arm's name."""
        return self.arm.spec.name

    def answers(self, asks: Iterable[Ask]) -> Iterator[Answered]:
        """Yield what comes of each ask, as it ends; one that is refused ends at once."""
        engine, waiting = self._engine, iter(asks)
        self.arm.take_target()
        opened: dict[str, tuple[Ask, list[OutputDelta]]] = {}
        try:
            while True:
                for ask in islice(waiting, engine.config.max_num_seqs - len(opened)):
                    request = self._request(ask)
                    try:
                        engine.add(request)
                    except LeewayError as error:
                        yield Answered(ask, error.message)
                        continue
                    opened[request.request_id] = ask, []
                if not opened:
                    return
                for delta in engine.step():
                    opened[delta.request_id][1].append(delta)
                    if delta.finish_reason is not None:
                        ask, deltas = opened.pop(delta.request_id)
                        yield self._answered(ask, deltas)
        finally:
            for request_id in engine.request_ids():
                engine.cancel(request_id)

    def _request(self, ask: Ask) -> Request:
        spec = self.arm.spec
        return Request(
            f"quality-{next(self.arm.numbers)}",
            ask.prompt.token_ids,
            ask.sampling,
            spec.acceptance,
            spec.num_speculative_tokens,
            limits=spec.limits,
        )

    def _answered(self, ask: Ask, deltas: list[OutputDelta]) -> Answered:
        last = deltas[-1]
        losses = self._watch.take(last.request_id)
        if last.error is not None:
            return Answered(ask, last.error.message)
        receipt = last.receipt
        assert receipt is not None
        return Answered(
            ask,
            error=None,
            text="".join(delta.text for delta in deltas),
            finish_reason=str(last.finish_reason),
            prompt_tokens=len(ask.prompt.token_ids),
            output_tokens=sum(len(delta.token_ids) for delta in deltas),
            decode_s=receipt.tally.decode_s,
            receipt=_short(receipt),
            tally=receipt.tally,
            losses=losses,
            void=self.arm.fault(receipt),
            note=self.arm.note(receipt),
        )


class ServerArm:
    """An arm that is a server: as many requests at once as asked for."""

    def __init__(self, arm: UrlArm, num_at_once: int) -> None:
        """Take the server as it is; nothing is sent yet."""
        self.arm = arm
        self._num_at_once = num_at_once

    @property
    def name(self) -> str:
        """The arm's name."""
        return self.arm.spec.name

    def answers(self, asks: Iterable[Ask]) -> Iterator[Answered]:
        """Yield what comes of each ask, as it ends."""
        waiting = iter(asks)
        with ThreadPoolExecutor(self._num_at_once) as pool:
            sent: dict[Future[Answer], Ask] = {}
            while True:
                for ask in islice(waiting, self._num_at_once - len(sent)):
                    sent[pool.submit(self.arm.ask, ask.prompt, ask.sampling)] = ask
                if not sent:
                    return
                for future in wait(sent, return_when=FIRST_COMPLETED).done:
                    yield self._answered(sent.pop(future), future.result())

    def _answered(self, ask: Ask, answer: Answer) -> Answered:
        if answer.error is not None:
            return Answered(ask, answer.error)
        num_tokens = answer.count("completion_tokens")
        if num_tokens is None or answer.finish_reason is None:
            return Answered(ask, _NO_LENGTH)
        told = told_of(answer)
        receipt = told_receipt(answer, ask.sampling)
        return Answered(
            ask,
            error=None,
            text=answer.text,
            finish_reason=answer.finish_reason,
            prompt_tokens=answer.count("prompt_tokens") or 0,
            output_tokens=num_tokens,
            decode_s=answer.decode_s or 0.0,
            receipt={key: receipt[key] for key in _RECEIPT if key in receipt},
            tally=server_tally(answer) if told else None,
            void=law_fault(self.arm.spec, ask.sampling, told),
        )


def wake(arm: AnsweringArm, ask: Ask) -> None:
    """Let a server answer a short request that is not counted, so that a dead one is told at once.

    Raises:
        ConfigError: the server refuses it or fails.
    """
    if isinstance(arm, ServerArm):
        arm.arm.wake(ask.prompt, replace(ask.sampling, max_tokens=1))


def _short(receipt: Receipt) -> dict[str, Any]:
    whole = receipt.to_dict()
    return {key: whole[key] for key in _RECEIPT if key in whole}
