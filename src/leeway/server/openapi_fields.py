"""Request bodies as JSON Schema, made from the tables that read them.

Types, defaults and required fields are those of the structs, ranges those of the room that checks
them, refused and ignored names those of an API's rules. Knows no routes and no answers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from leeway.acceptance.law_ceiling import LawCeiling
from leeway.core import limits
from leeway.core.config import EngineConfig
from leeway.core.rng import MAX_SEED
from leeway.sampling.logprobs import MAX_TOP_LOGPROBS
from leeway.sampling.params import MAX_LOGIT_BIAS, RANGES
from leeway.server import messages_content, schema
from leeway.server.fields import FieldRules
from leeway.server.messages_fields import EFFORTS, THINKING
from leeway.server.messages_tools import CHOICES
from leeway.server.order import MAX_CHOICES
from leeway.server.prompts import EMPTY_IN_MESSAGES, ROLES
from leeway.server.responses import PARTS
from leeway.server.responses_tools import LOGPROBS
from leeway.server.sampling_fields import MAX_STOP_STRINGS
from leeway.server.speculative_fields import LEVELS

Schema = dict[str, Any]
Kind = type[msgspec.Struct]

REF = "#/components/schemas/"
_CHAT: tuple[Kind, ...] = (schema.Message, schema.CallingMessage, schema.ToolMessage)
_FORMS: dict[str, tuple[Kind, ...]] = {
    "response_format": (schema.ResponseFormat,),
    "structured_outputs": (schema.StructuredOutputs,),
}
_AGENT: dict[str, tuple[Kind, ...]] = {
    "messages": (schema.MessagesMessage,),
    "system": (schema.MessagesTextBlock,),
    "tools": (schema.MessagesTool,),
    "tool_choice": (schema.MessagesToolChoice,),
    "thinking": (schema.MessagesThinking,),
    "output_config": (schema.MessagesOutput,),
    "context_management": (schema.MessagesContext,),
}
_TOOL_CHOICES = ("none", "auto", "required")
_INSIDE: dict[Kind, dict[str, tuple[Kind, ...]]] = {
    schema.ChatFields: {
        **_FORMS,
        "messages": _CHAT,
        "tools": (schema.Tool,),
        "tool_choice": (schema.ToolChoice,),
    },
    schema.CompletionFields: _FORMS,
    schema.ResponseFields: {
        "input": (schema.InputMessage, schema.FunctionCallItem, schema.FunctionCallOutput),
        "tools": (schema.ResponseTool,),
        "tool_choice": (schema.ResponseToolChoice,),
    },
    schema.MessagesPrompt: _AGENT,
    schema.MessagesFields: _AGENT,
    schema.TokenizeFields: {"messages": _CHAT},
    schema.ResponseFormat: {"json_schema": (schema.JSONSchemaFormat,)},
    **{
        kind: {"content": (schema.TextPart,), "tool_calls": (schema.MessageCall,)} for kind in _CHAT
    },
    schema.InputMessage: {"content": (schema.InputText,)},
    schema.FunctionCallOutput: {"output": (schema.InputText,)},
    schema.MessagesMessage: {
        "content": (schema.MessagesTextBlock, schema.MessagesToolUse, schema.MessagesToolResult)
    },
    schema.MessagesToolResult: {"content": (schema.MessagesTextBlock,)},
    schema.MessagesOutput: {"format": (schema.TextFormat, schema.ResponseFormat)},
}
"""What an object in a field is read as, where its own struct says only that it is one."""

_WORDS: dict[tuple[Kind, str], Iterable[str]] = {
    (schema.Message, "role"): ROLES,
    (schema.CallingMessage, "role"): ("assistant",),
    (schema.ToolMessage, "role"): ("tool",),
    (schema.InputMessage, "role"): ROLES,
    (schema.MessagesMessage, "role"): messages_content.ROLES,
    (schema.InputMessage, "type"): ("message",),
    (schema.FunctionCallItem, "type"): ("function_call",),
    (schema.FunctionCallOutput, "type"): ("function_call_output",),
    (schema.InputText, "type"): PARTS,
    (schema.TextPart, "type"): ("text",),
    (schema.MessagesTextBlock, "type"): ("text",),
    (schema.MessagesToolUse, "type"): ("tool_use",),
    (schema.MessagesToolResult, "type"): ("tool_result",),
    (schema.Tool, "type"): ("function",),
    (schema.ResponseTool, "type"): ("function",),
    (schema.MessageCall, "type"): ("function",),
    (schema.ToolChoice, "type"): ("function",),
    (schema.ResponseToolChoice, "type"): ("function",),
    (schema.MessagesTool, "type"): ("custom",),
    (schema.MessagesToolChoice, "type"): (*CHOICES, "tool"),
    (schema.MessagesThinking, "type"): THINKING,
    (schema.MessagesOutput, "effort"): EFFORTS,
    (schema.ResponseFormat, "type"): ("text", "json_object", "json_schema"),
    (schema.TextFormat, "type"): ("json_schema",),
    (schema.ChatFields, "tool_choice"): _TOOL_CHOICES,
    (schema.ResponseFields, "tool_choice"): _TOOL_CHOICES,
    (schema.ResponseFields, "include"): (LOGPROBS, "reasoning.encrypted_content"),
}
"""The texts that a field may have."""

_COUNT: Schema = {"minimum": 0}
_TOP: Schema = {"minimum": 0, "maximum": MAX_TOP_LOGPROBS}
_NUMBERS: dict[str, Schema] = {
    **{
        name: {"minimum": low, "maximum": high, "description": f"Allowed: {allowed}."}
        for name, (low, high, allowed) in RANGES.items()
    },
    "logit_bias": {"minimum": -MAX_LOGIT_BIAS, "maximum": MAX_LOGIT_BIAS},
    "seed": {"minimum": 0, "maximum": MAX_SEED},
    "top_k": {"minimum": -1},
    "n": {"minimum": 1, "maximum": MAX_CHOICES},
    "best_of": {"minimum": 1, "maximum": MAX_CHOICES},
    "logprobs": _TOP,
    "top_logprobs": _TOP,
    **dict.fromkeys(("max_tokens", "max_completion_tokens", "max_output_tokens"), _COUNT),
    **dict.fromkeys(("min_tokens", "stop_token_ids", "tokens", "prompt"), _COUNT),
}
_TEXTS = {"stop", "stop_sequences"}


def field_schemas(kinds: Iterable[tuple[Kind, FieldRules]]) -> dict[str, Schema]:
    """Return a schema for each body, by the struct's name, and for all that stands inside."""
    rules = dict(kinds)
    every = [
        *rules,
        *(one for inner in _INSIDE.values() for kinds in inner.values() for one in kinds),
    ]
    _, found = msgspec.json.schema_components(
        list(dict.fromkeys(every)), ref_template=REF + "{name}"
    )
    for kind in dict.fromkeys([*every, *_INSIDE]):
        _refine(found[kind.__name__], kind)
    for kind, one in rules.items():
        _as_body(found[kind.__name__], one)
    for kind in _CHAT:
        for name in EMPTY_IN_MESSAGES:
            found[kind.__name__]["properties"].setdefault(name, {"enum": [None, []]})
    found[schema.MessageCall.__name__]["properties"]["index"] = {"type": "integer"}
    found[schema.ResponseFields.__name__]["properties"]["text"] = _text_form()
    return found


def speculative_schema(config: EngineConfig, ceiling: LawCeiling) -> Schema:
    """Return the schema of `speculative`, with the laws and lengths that this server allows."""
    presets = [name for name, law in ceiling.presets.items() if law in ceiling.allowed]
    knobs = sorted({knob.name for name in ceiling.allowed for knob in ceiling.infos[name].knobs})
    knob: Schema = {"type": ["number", "string", "null"]}
    depth = config.num_speculative_tokens if config.drafter != "none" else 0
    named: dict[str, Schema] = {
        "law": {"enum": [*ceiling.allowed, *presets, None]},
        "num_speculative_tokens": {"type": ["integer", "null"], "minimum": 0, "maximum": depth},
        "metrics": {"enum": [*LEVELS, None]},
        "options": {
            "type": ["object", "null"],
            "properties": dict.fromkeys(knobs, knob),
            "additionalProperties": False,
        },
        "tv_budget": {"type": ["number", "null"], "minimum": 0, "maximum": limits.MAX_TOKENS},
        "exact_prefix": {"type": ["integer", "null"], "minimum": 0, "maximum": limits.MAX_TOKENS},
        "hard_support": {"type": ["boolean", "null"]},
        "phase": {"enum": [*limits.PHASES, None]},
    }
    return {
        "type": "object",
        "description": "The law of one request; a law's knobs stand beside it or in options.",
        "properties": {**dict.fromkeys(knobs, knob), **named},
        "additionalProperties": False,
    }


def _as_body(body: Schema, rules: FieldRules) -> None:
    """Add the names that are refused or ignored; null is as good as leaving an optional one out."""
    properties, required = body["properties"], body.get("required", ())
    for name in properties:
        if name not in required:
            properties[name] = _nullable(properties[name])
    if "speculative" in properties:
        properties["speculative"] = _nullable({"$ref": REF + "Speculative"})
    for name, neutral in rules.unsupported.items():
        says = "Not supported; only a value that asks for nothing."
        properties.setdefault(name, {"enum": [*neutral, None], "description": says})
    for name in sorted(rules.ignored):
        properties.setdefault(name, {"description": "Ignored: it cannot matter here."})


def _refine(found: Schema, kind: Kind) -> None:
    """Say what the struct leaves open: objects inside, words, ranges. Mutates the schema."""
    for name, one in found["properties"].items():
        inside = _INSIDE.get(kind, {}).get(name, ())
        words = tuple(_WORDS.get((kind, name), ()))
        is_body = issubclass(kind, schema.SamplingFields | schema.DetokenizeFields)
        numbers = _NUMBERS.get(name, {}) if is_body else {}
        found["properties"][name] = _refined(one, inside, words, numbers, has_texts=name in _TEXTS)
        if "description" in numbers:
            found["properties"][name]["description"] = numbers["description"]
    if "logit_bias" in found["properties"] and "logit_bias" in _NUMBERS:
        found["properties"]["logit_bias"]["propertyNames"] = {"pattern": "^[0-9]{1,18}$"}


def _refined(
    one: Schema,
    inside: tuple[Kind, ...],
    words: tuple[str, ...],
    numbers: Schema,
    *,
    has_texts: bool,
) -> Schema:
    """Return the schema with each of its alternatives, items and members refined."""

    def inner(part: Schema) -> Schema:
        return _refined(part, inside, words, numbers, has_texts=has_texts)

    if "anyOf" in one:
        return {**one, "anyOf": [inner(part) for part in one["anyOf"]]}
    kind = one.get("type")
    if kind == "array":
        limit = {"maxItems": MAX_STOP_STRINGS} if has_texts else {}
        return {**one, "items": inner(one.get("items", {})), **limit}
    if kind == "object" and inside:
        refs = [{"$ref": REF + each.__name__} for each in inside]
        return refs[0] if len(refs) == 1 else {"anyOf": refs}
    if kind == "object" and numbers and isinstance(one.get("additionalProperties"), dict):
        return {**one, "additionalProperties": inner(one["additionalProperties"])}
    if kind in ("integer", "number"):
        return {**one, **{name: value for name, value in numbers.items() if name != "description"}}
    if kind == "string":
        return {
            **one,
            **({"enum": list(words)} if words else {}),
            **({"minLength": 1} if has_texts else {}),
        }
    return one


def _nullable(one: Schema) -> Schema:
    outer: Schema = {name: one[name] for name in ("default", "description") if name in one}
    bare = {name: value for name, value in one.items() if name not in outer}
    known = bare.get("anyOf", [bare])
    if {"type": "null"} in known:
        return one
    return {"anyOf": [*known, {"type": "null"}], **outer}


def _text_form() -> Schema:
    forms = [{"$ref": REF + kind.__name__} for kind in (schema.TextFormat, schema.ResponseFormat)]
    properties = {
        "format": {"anyOf": [*forms, {"type": "null"}]},
        "verbosity": {"enum": ["medium", None]},
    }
    return {"type": ["object", "null"], "properties": properties, "additionalProperties": False}
