"""OpenAI's chat and completions: a request's body to prompts and an order."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from starlette.requests import Request as HTTPRequest
from starlette.types import ASGIApp

from leeway.core.errors import RequestError
from leeway.sampling.logprobs import MAX_TOP_LOGPROBS
from leeway.server.body import read_json_object
from leeway.server.chat_reader import behind_reasoning, make_readers
from leeway.server.choice_format import ChatFormat, CompletionFormat
from leeway.server.fields import read_fields
from leeway.server.order import (
    Order,
    check_choices,
    make_outputs,
    read_order,
    send_answer,
    with_grammar,
)
from leeway.server.prompts import chat_prompt, completion_prompts, echo_text
from leeway.server.sampling_fields import read_max_tokens, read_stop
from leeway.server.schema import ChatFields, CompletionFields, SharedFields
from leeway.server.state import ServerState
from leeway.server.structured_fields import read_grammar
from leeway.server.tool_fields import only_form, read_tools, with_stop


async def chat_completions(http_request: HTTPRequest) -> ASGIApp:
    """POST /v1/chat/completions."""
    state: ServerState = http_request.app.state.server
    parts = state.engine().parts
    content = await read_json_object(http_request, state.max_body_bytes)
    fields = read_fields(content, ChatFields)
    order = replace(_order(state, fields), logprobs=_chat_logprobs(fields))
    tools = read_tools(parts, fields)
    form = only_form(read_grammar(fields), tools)
    order = with_stop(order, tools)
    check_choices(1, fields.n)
    shown = None if tools is None else tools.shown
    continues = _continues(fields)
    prompt = await asyncio.to_thread(
        chat_prompt, parts, fields.messages, shown, continues=continues
    )
    order = await with_grammar(state, order, behind_reasoning(parts, prompt, form))
    shape = ChatFormat(
        model=order.model,
        outputs=make_outputs(order, [prompt]),
        is_detailed=order.speculative.is_detailed,
        fingerprint=state.fingerprint(),
        tokenizer=parts.tokenizer,
        has_usage=_has_usage(fields),
        has_logprobs=order.logprobs is not None,
        readers=make_readers(parts, prompt, tools, fields.n),
    )
    return send_answer(state, order, [prompt], shape)


async def completions(http_request: HTTPRequest) -> ASGIApp:
    """POST /v1/completions."""
    state: ServerState = http_request.app.state.server
    parts = state.engine().parts
    content = await read_json_object(http_request, state.max_body_bytes)
    fields = read_fields(content, CompletionFields)
    num_top = _completion_logprobs(fields)
    order = replace(
        _order(state, fields), logprobs=num_top, prompt_logprobs=num_top if fields.echo else None
    )
    order = await with_grammar(state, order, read_grammar(fields))
    _check_best_of(fields)
    prompts = await asyncio.to_thread(completion_prompts, parts, fields.prompt)
    check_choices(len(prompts), fields.n)
    outputs = make_outputs(order, prompts)
    if fields.echo:
        for index, output in enumerate(outputs):
            output.prompt_text = echo_text(parts, fields.prompt, prompts, index // fields.n)
    shape = CompletionFormat(
        model=order.model,
        outputs=outputs,
        is_detailed=order.speculative.is_detailed,
        fingerprint=state.fingerprint(),
        tokenizer=parts.tokenizer,
        has_usage=_has_usage(fields),
        has_logprobs=order.logprobs is not None,
        prompts=[prompt for prompt in prompts for _ in range(fields.n)],
    )
    return send_answer(state, order, prompts, shape)


def _order(state: ServerState, fields: SharedFields) -> Order:
    if fields.stream_options is not None and not fields.stream:
        raise RequestError(
            "stream_options is allowed only with stream: true", param="stream_options"
        )
    order = read_order(
        state, fields, max_tokens=read_max_tokens(fields), stop=read_stop(fields.stop)
    )
    return replace(order, num_choices=fields.n)


def _has_usage(fields: SharedFields) -> bool:
    options = fields.stream_options
    return options is not None and bool(options.include_usage)


def _continues(fields: ChatFields) -> bool:
    """Return whether the last message is to be gone on with, as its client began it."""
    if fields.add_generation_prompt in (None, not fields.continue_final_message):
        return fields.continue_final_message
    raise RequestError(
        f"add_generation_prompt is {fields.add_generation_prompt} beside continue_final_message "
        f"{fields.continue_final_message}; allowed: one of the two true, or leave the first out",
        param="add_generation_prompt",
    )


def _chat_logprobs(fields: ChatFields) -> int | None:
    """Return how many of the likeliest tokens are wanted; None where no logprobs are."""
    if fields.top_logprobs is not None:
        check_top_logprobs(fields.top_logprobs)
        if fields.top_logprobs and not fields.logprobs:
            raise RequestError(
                f"top_logprobs is {fields.top_logprobs} without logprobs; allowed: only with "
                "logprobs: true, or 0",
                param="top_logprobs",
            )
    return (fields.top_logprobs or 0) if fields.logprobs else None


def _completion_logprobs(fields: CompletionFields) -> int | None:
    asked = fields.logprobs
    if asked is None or asked is False:
        return None
    if asked is True:
        raise RequestError(
            "logprobs is true; allowed: a number from 0 to "
            f"{MAX_TOP_LOGPROBS}, how many of the likeliest tokens to list",
            param="logprobs",
        )
    check_top_logprobs(asked, "logprobs")
    return asked


def check_top_logprobs(num_top: int, name: str = "top_logprobs") -> None:
    """Raise RequestError unless so many of the likeliest tokens can be listed."""
    if not 0 <= num_top <= MAX_TOP_LOGPROBS:
        raise RequestError(
            f"{name} is {num_top}; allowed: 0 to {MAX_TOP_LOGPROBS}, how many of the likeliest "
            "tokens to list",
            param=name,
        )


def _check_best_of(fields: CompletionFields) -> None:
    if fields.best_of not in (None, fields.n):
        raise RequestError(
            f"best_of is {fields.best_of}; allowed: n ({fields.n}), for answers are not ranked; "
            "ask for n with logprobs and choose yourself",
            param="best_of",
        )
