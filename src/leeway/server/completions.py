"""The two completion routes: a request's body to engine requests, and back to an answer."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request as HTTPRequest
from starlette.types import ASGIApp

from leeway.core.errors import RequestError
from leeway.core.types import Request
from leeway.server.answer_format import AnswerFormat, ChatFormat, ChoiceOutput, CompletionFormat
from leeway.server.body import read_json_object
from leeway.server.deltas import DeltaQueue
from leeway.server.fields import read_fields
from leeway.server.prompts import chat_prompt, completion_prompts
from leeway.server.respond import StreamedAnswer, WholeAnswer
from leeway.server.sampling_fields import read_max_tokens, read_sampling, room_for_answer
from leeway.server.schema import ChatFields, CompletionFields, SharedFields
from leeway.server.speculative_fields import SpeculativeFields, read_speculative
from leeway.server.state import ServerState


@dataclass(frozen=True, slots=True)
class Order:
    """A checked request: what it asks of every prompt."""

    fields: SharedFields
    model: str
    speculative: SpeculativeFields
    received_at: float


async def chat_completions(http_request: HTTPRequest) -> ASGIApp:
    """POST /v1/chat/completions."""
    state: ServerState = http_request.app.state.server
    parts = state.engine().parts
    content = await read_json_object(http_request, state.max_body_bytes)
    fields = read_fields(content, ChatFields)
    order = _order(state, fields)
    prompt = await asyncio.to_thread(chat_prompt, parts, fields.messages)
    return _answer(state, order, [prompt], ChatFormat)


async def completions(http_request: HTTPRequest) -> ASGIApp:
    """POST /v1/completions."""
    state: ServerState = http_request.app.state.server
    parts = state.engine().parts
    content = await read_json_object(http_request, state.max_body_bytes)
    fields = read_fields(content, CompletionFields)
    order = _order(state, fields)
    prompts = await asyncio.to_thread(completion_prompts, parts, fields.prompt)
    return _answer(state, order, prompts, CompletionFormat)


def _order(state: ServerState, fields: SharedFields) -> Order:
    model = state.check_model(fields.model)
    if fields.stream_options is not None and not fields.stream:
        raise RequestError(
            "stream_options is allowed only with stream: true", param="stream_options"
        )
    speculative = read_speculative(fields.speculative, state.engine(), state.ceiling)
    return Order(fields, model, speculative, time.monotonic())


def _requests(state: ServerState, order: Order, prompts: Sequence[list[int]]) -> list[Request]:
    asked = read_max_tokens(order.fields)
    backend = state.engine().parts.backend
    requests = []
    for prompt in prompts:
        max_tokens = room_for_answer(backend, len(prompt)) if asked is None else asked
        requests.append(
            Request(
                request_id=uuid.uuid4().hex,
                prompt_token_ids=tuple(prompt),
                sampling=read_sampling(order.fields, max_tokens),
                acceptance=order.speculative.acceptance,
                num_speculative_tokens=order.speculative.num_speculative_tokens,
            )
        )
    return requests


def _answer(
    state: ServerState, order: Order, prompts: Sequence[list[int]], kind: type[AnswerFormat]
) -> ASGIApp:
    options = order.fields.stream_options
    shape = kind(
        model=order.model,
        fingerprint=state.fingerprint(),
        has_usage=options is not None and bool(options.include_usage),
        is_detailed=order.speculative.is_detailed,
    )
    requests = _requests(state, order, prompts)
    deltas = DeltaQueue(state.service, requests, state.report, order.received_at)
    outputs = [ChoiceOutput(len(prompt)) for prompt in prompts]
    if order.fields.stream:
        return StreamedAnswer(deltas, shape, outputs, state.keep_alive_s)
    return WholeAnswer(deltas, shape, outputs)
