"""/tokenize and /detokenize, in the shape of vLLM's."""

from __future__ import annotations

import asyncio

from starlette.requests import Request as HTTPRequest
from starlette.responses import Response

from leeway.core.errors import RequestError
from leeway.server.body import read_json_object
from leeway.server.errors import json_response
from leeway.server.fields import FieldRules, read_fields
from leeway.server.prompts import check_ids, render_chat
from leeway.server.schema import DetokenizeFields, TokenizeFields
from leeway.server.service_protocol import ServedParts
from leeway.server.state import ServerState

TOKENIZE_RULES = FieldRules(
    {
        "chat_template": (),
        "chat_template_kwargs": ({},),
        "continue_final_message": (False,),
        "mm_processor_kwargs": (),
        "tools": ([],),
    },
    frozenset(),
)


async def tokenize(http_request: HTTPRequest) -> Response:
    """POST /tokenize."""
    state: ServerState = http_request.app.state.server
    parts = state.engine().parts
    content = await read_json_object(http_request, state.max_body_bytes)
    fields = read_fields(content, TokenizeFields, TOKENIZE_RULES)
    state.check_model(fields.model)
    ids = await asyncio.to_thread(_ids, parts, fields)
    names = [parts.tokenizer.token_text(one) for one in ids] if fields.return_token_strs else None
    most = state.max_model_len()
    return json_response(
        {"count": len(ids), "max_model_len": most, "tokens": ids, "token_strs": names}
    )


async def detokenize(http_request: HTTPRequest) -> Response:
    """POST /detokenize."""
    state: ServerState = http_request.app.state.server
    parts = state.engine().parts
    content = await read_json_object(http_request, state.max_body_bytes)
    fields = read_fields(content, DetokenizeFields, TOKENIZE_RULES)
    state.check_model(fields.model)
    check_ids(parts, fields.tokens, "tokens")
    return json_response({"prompt": parts.tokenizer.decode(fields.tokens, with_special=True)})


def _ids(parts: ServedParts, fields: TokenizeFields) -> list[int]:
    if (fields.prompt is None) == (fields.messages is None):
        raise RequestError(
            "the request has both prompt and messages, or neither; send one of them",
            param="prompt",
        )
    if fields.prompt is not None:
        add_special = fields.add_special_tokens is not False
        return parts.tokenizer.encode(fields.prompt, add_special=add_special)
    assert fields.messages is not None
    text = render_chat(parts, fields.messages, add_generation_prompt=fields.add_generation_prompt)
    return parts.tokenizer.encode(text, add_special=fields.add_special_tokens is True)
