"""Answers and errors as JSON Schema: what a client may rely on in a body; more may stand in it."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_OBJECT: Schema = {"type": "object"}


def _or_null(one: Schema) -> Schema:
    return {"anyOf": [one, {"type": "null"}]}


def _list(one: Schema) -> Schema:
    return {"type": "array", "items": one}


def _object(**required: Schema) -> Schema:
    return {"type": "object", "properties": required, "required": list(required)}


def _with(one: Schema, **optional: Schema) -> Schema:
    return {**one, "properties": {**one["properties"], **optional}}


def _only(*words: str | None) -> Schema:
    return {"enum": list(words)}


_USAGE = _object(
    prompt_tokens=_COUNT,
    completion_tokens=_COUNT,
    total_tokens=_COUNT,
    prompt_tokens_details=_object(cached_tokens=_COUNT),
)
_ITEM_USAGE = _object(
    input_tokens=_COUNT,
    output_tokens=_COUNT,
    total_tokens=_COUNT,
    input_tokens_details=_object(cached_tokens=_COUNT),
)
_METRICS = _object(version=WHOLE, speculative_decoding=_or_null(_OBJECT))
_CALL = _object(id=TEXT, type=_only("function"), function=_object(name=TEXT, arguments=TEXT))
_MESSAGE = _with(
    _object(role=_only("assistant"), content=_or_null(TEXT), refusal=_only(None)),
    reasoning_content=_or_null(TEXT),
    tool_calls=_list(_CALL),
)
_HEAD = {"id": TEXT, "created": WHOLE, "model": TEXT, "system_fingerprint": TEXT}
_REASONS = ("stop", "length")
_MODEL = _object(id=TEXT, object=_only("model"), created=WHOLE, owned_by=TEXT, max_model_len=_COUNT)
_ERROR = _object(message=TEXT, type=TEXT, param=_or_null(TEXT), code=TEXT)

ANSWERS: dict[str, Schema] = {
    "ChatCompletion": _object(
        **_HEAD,
        object=_only("chat.completion"),
        choices=_list(
            _object(index=_COUNT, message=_MESSAGE, finish_reason=_only(*_REASONS, "tool_calls"))
        ),
        usage=_USAGE,
        metrics=_METRICS,
    ),
    "Completion": _object(
        **_HEAD,
        object=_only("text_completion"),
        choices=_list(
            _object(
                index=_COUNT, text=TEXT, logprobs=_or_null(_OBJECT), finish_reason=_only(*_REASONS)
            )
        ),
        usage=_USAGE,
        metrics=_METRICS,
    ),
    "Response": _object(
        id=TEXT,
        object=_only("response"),
        created_at=WHOLE,
        status=_only("completed", "incomplete"),
        model=TEXT,
        output=_list(_object(id=TEXT, type=_only("message", "function_call"), status=TEXT)),
        usage=_ITEM_USAGE,
        metrics=_METRICS,
    ),
    "MessagesAnswer": _object(
        id=TEXT,
        type=_only("message"),
        role=_only("assistant"),
        model=TEXT,
        content=_list(_object(type=_only("text", "tool_use"))),
        stop_reason=_only("end_turn", "max_tokens", "stop_sequence", "tool_use"),
        stop_sequence=_or_null(TEXT),
        usage=_object(input_tokens=_COUNT, output_tokens=_COUNT, cache_read_input_tokens=_COUNT),
        metrics=_METRICS,
    ),
    "TokenCount": _object(input_tokens=_COUNT),
    "Tokens": _object(
        count=_COUNT, max_model_len=_COUNT, tokens=_list(_COUNT), token_strs=_or_null(_list(TEXT))
    ),
    "Detokenized": _object(prompt=TEXT),
    "Model": _MODEL,
    "Models": _object(object=_only("list"), data=_list(_MODEL)),
    "Laws": _object(laws=_list(_OBJECT), presets=_list(_OBJECT), limits=_list(_OBJECT)),
    "Health": _object(status=TEXT, version=TEXT, model=TEXT, settings=_OBJECT, acceptance=_OBJECT),
    "Liveness": _object(status=TEXT),
    "Version": _object(version=TEXT),
    "Error": _object(error=_ERROR),
    "MessagesError": _object(
        type=_only("error"), error=_object(type=TEXT, message=TEXT), request_id=TEXT
    ),
}
