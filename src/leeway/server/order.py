"""Orders: a checked request of any API, and how it becomes engine requests and an answer."""

from __future__ import annotations

import asyncio
import secrets
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

from starlette.types import ASGIApp

from leeway.core.errors import RequestError
from leeway.core.rng import choice_seed
from leeway.core.types import Grammar, Request, SamplingParams
from leeway.server.answer_format import AnswerFormat, ChoiceOutput
from leeway.server.deltas import DeltaQueue
from leeway.server.respond import StreamedAnswer, WholeAnswer
from leeway.server.sampling_fields import read_sampling, room_for_answer
from leeway.server.schema import SamplingFields
from leeway.server.speculative_fields import SpeculativeFields, read_speculative
from leeway.server.state import ServerState

MAX_CHOICES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is asked of every prompt.

    Attributes:
        model: the served one's name.
        sampling: with the effective seed; its `max_tokens` counts only where `has_limit`.
        has_limit: whether the request says how many tokens may come; else the context does.
        num_choices: answers to each prompt.
        logprobs, prompt_logprobs, grammar: see `core.types.Request`.
        received_at: seconds of a monotonic clock.
    """

    model: str
    sampling: SamplingParams
    has_limit: bool
    speculative: SpeculativeFields
    is_stream: bool
    received_at: float
    num_choices: int = 1
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    grammar: Grammar | None = None


def read_order(
    state: ServerState, fields: SamplingFields, *, max_tokens: int | None, stop: Sequence[str]
) -> Order:
    """Return the checked order of one answer to a prompt.

    Raises:
        RequestError: names the field at fault.
    """
    sampling = read_sampling(fields, max_tokens or 0, stop)
    if sampling.seed is None:
        sampling = replace(sampling, seed=secrets.randbits(53))
    return Order(
        model=state.check_model(fields.model),
        sampling=sampling,
        has_limit=max_tokens is not None,
        speculative=read_speculative(fields.speculative, state.engine(), state.ceiling),
        is_stream=fields.stream,
        received_at=time.monotonic(),
    )


async def with_grammar(state: ServerState, order: Order, grammar: Grammar | None) -> Order:
    """Return the order of an answer in this form, once the form is compiled, on a thread.

    Raises:
        RequestError: it is malformed, or no answer of this model has this form.
    """
    if grammar is None:
        return order
    await asyncio.to_thread(state.engine().compile_grammar, grammar)
    return replace(order, grammar=grammar)


def check_choices(num_prompts: int, num_choices: int) -> None:
    """Raise RequestError unless a request asks for a number of choices that is allowed."""
    if not 1 <= num_choices <= MAX_CHOICES or num_prompts * num_choices > MAX_CHOICES:
        raise RequestError(
            f"n is {num_choices} for {num_prompts} prompt(s); allowed: 1 or more, up to "
            f"{MAX_CHOICES} choices in one request; send several requests",
            param="n",
        )


def send_answer(
    state: ServerState, order: Order, prompts: Sequence[Sequence[int]], shape: AnswerFormat
) -> ASGIApp:
    """Return the answer to the prompts, streamed or whole; `shape` has its outputs in order."""
    requests = [
        _request(state, order, prompt, index)
        for prompt in prompts
        for index in range(order.num_choices)
    ]
    headers = _headers(state, order, requests[0])
    deltas = DeltaQueue(state.service, requests, state.report, order.received_at)
    if order.is_stream:
        return StreamedAnswer(deltas, shape, headers, state.keep_alive_s)
    return WholeAnswer(deltas, shape, headers)


def make_outputs(order: Order, prompts: Sequence[Sequence[int]]) -> list[ChoiceOutput]:
    """Return an empty output for every choice of every prompt, in order."""
    return [
        ChoiceOutput(len(prompt), is_first_of_prompt=index == 0)
        for prompt in prompts
        for index in range(order.num_choices)
    ]


def _request(state: ServerState, order: Order, prompt: Sequence[int], index: int) -> Request:
    sampling = order.sampling
    assert sampling.seed is not None
    max_tokens = sampling.max_tokens
    if not order.has_limit:
        max_tokens = room_for_answer(state.engine().parts.backend, len(prompt))
    seed = choice_seed(sampling.seed, index)
    return Request(
        request_id=uuid.uuid4().hex,
        prompt_token_ids=tuple(prompt),
        sampling=replace(sampling, max_tokens=max_tokens, seed=seed),
        acceptance=order.speculative.acceptance,
        num_speculative_tokens=order.speculative.num_speculative_tokens,
        limits=order.speculative.limits,
        logprobs=order.logprobs,
        prompt_logprobs=order.prompt_logprobs,
        grammar=order.grammar,
    )


def _headers(state: ServerState, order: Order, request: Request) -> dict[str, str]:
    """Return the headers that say what runs."""
    engine = state.engine()
    law = engine.law_of(request)
    asked = order.speculative.num_speculative_tokens
    num_drafted = engine.config.num_speculative_tokens if asked is None else asked
    return {
        "X-Leeway-Law": law.info.name,
        "X-Leeway-Guarantee": str(law.info.guarantee),
        "X-Leeway-Drafter": engine.parts.drafter.name if num_drafted else "none",
        "X-Leeway-Seed": str(order.sampling.seed),
    }
