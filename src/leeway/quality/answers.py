"""Enough answers to judge: prompts through the engine, as many at once as it runs.

In: an engine, prompts as token ids, a sampler, how many tokens are wanted. Out: whole answers with
their seeds and receipts. Every answer that was begun is finished and kept, and another one is begun
only for what came before: leaving any out would bias whatever is measured on them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from leeway.core.receipt import Receipt, Tally
from leeway.core.types import OutputDelta, Request, SamplingParams
from leeway.engine.engine import Engine


@dataclass(slots=True)
class Answered:
    """One prompt's answer; `receipt` comes with its end."""

    prompt_ids: tuple[int, ...]
    seed: int
    token_ids: list[int] = field(default_factory=list)
    receipt: Receipt | None = None

    def take(self, delta: OutputDelta) -> None:
        """Add one delta; raises the error that it carries."""
        if delta.error is not None:
            raise delta.error
        self.token_ids.extend(delta.token_ids)
        self.receipt = delta.receipt or self.receipt


def collect_answers(
    engine: Engine,
    prompts: Sequence[tuple[int, ...]],
    sampling: SamplingParams,
    *,
    min_tokens: int,
    seed: int,
    on_tokens: Callable[[int], None] = lambda _: None,
) -> list[Answered]:
    """Answer prompts in turn, from the first again behind the last, until there are tokens enough.

    Args:
        engine: idle; a batch of `max_num_seqs` runs at once.
        prompts: at least one.
        sampling: of every answer; its seed is not read.
        min_tokens: no answer is begun once so many are emitted.
        seed: answer i has seed + i.
        on_tokens: told how many tokens are emitted, after every step.

    Raises:
        RequestError: a prompt or a parameter is refused; none was started.
        BackendError: the target failed.
    """
    assert prompts and not engine.has_work
    for index, prompt in enumerate(prompts):
        engine.check(_request(index, prompt, sampling, seed))
    answers: dict[str, Answered] = {}
    num_tokens = 0
    try:
        while num_tokens < min_tokens or engine.has_work:
            while num_tokens < min_tokens and _has_place(engine):
                index = len(answers)
                request = _request(index, prompts[index % len(prompts)], sampling, seed)
                engine.add(request)
                answers[request.request_id] = Answered(request.prompt_token_ids, seed + index)
            for delta in engine.step():
                answers[delta.request_id].take(delta)
                num_tokens += len(delta.token_ids)
            on_tokens(num_tokens)
    finally:
        for request_id in engine.request_ids():
            engine.cancel(request_id)
    return list(answers.values())


def total_tally(answers: Sequence[Answered]) -> Tally:
    """Return the sum of the receipts."""
    total = Tally()
    for one in answers:
        assert one.receipt is not None
        total.add(one.receipt.tally)
    return total


def _has_place(engine: Engine) -> bool:
    return len(engine.request_ids()) < engine.config.max_num_seqs


def _request(index: int, prompt: tuple[int, ...], sampling: SamplingParams, seed: int) -> Request:
    return Request(f"quality-{index}", prompt, replace(sampling, seed=seed + index))
