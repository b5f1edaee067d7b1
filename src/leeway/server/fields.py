"""Fields: which names a request may carry, and what becomes of each.

A field is honoured (it is in the request's struct), refused by name (it would change the answer and
is not supported), or ignored (it cannot matter here). Nothing else is let through. A null is the
same as leaving the field out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from leeway.core.errors import RequestError, did_you_mean

IGNORED = frozenset(
    {
        "metadata",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "user",
    }
)

# Of OpenAI's completions: not supported, with the values that ask for nothing and so are accepted.
UNSUPPORTED: dict[str, tuple[Any, ...]] = {
    "add_generation_prompt": (True,),  # completions only
    "allowed_token_ids": ([],),
    "audio": (),
    "bad_words": ([],),
    "chat_template": (),
    "chat_template_kwargs": ({},),
    "continue_final_message": (False,),  # completions only
    "echo": (False,),  # chat only
    "function_call": ("none", "auto"),
    "functions": ([],),
    "include_stop_str_in_output": (False,),
    "length_penalty": (1, 1.0),
    "modalities": (["text"],),
    "moderation": (),
    "parallel_tool_calls": (True, False),  # completions only
    "prediction": (),
    "prompt_logprobs": (),
    "reasoning_effort": ("none",),
    "return_token_ids": (False,),
    "return_tokens_as_token_ids": (False,),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "suffix": ("",),
    "tool_choice": ("none", "auto"),  # completions only, as tools
    "tools": ([],),
    "top_logprobs": (0,),  # completions only
    "truncate_prompt_tokens": (),
    "use_beam_search": (False,),
    "verbosity": ("medium",),
    "web_search_options": (),
}

StructT = TypeVar("StructT", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class FieldRules:
    """What an API does with the names that it does not honour.

    Attributes:
        unsupported: with the values that ask for nothing.
        ignored: cannot matter here.
    """

    unsupported: Mapping[str, tuple[Any, ...]]
    ignored: frozenset[str]


OPENAI = FieldRules(UNSUPPORTED, IGNORED)


def read_fields(
    content: Mapping[str, Any], kind: type[StructT], rules: FieldRules = OPENAI
) -> StructT:
    """Return the request's honoured fields.

    Raises:
        RequestError: a field is unknown, not supported, or of the wrong type; `param` names it.
    """
    honoured = set(kind.__struct_fields__)
    kept: dict[str, Any] = {}
    for name, value in content.items():
        if name in honoured:
            if value is not None:
                kept[name] = value
        elif name in rules.unsupported:
            refuse_unless_neutral(name, value, rules.unsupported[name])
        elif name not in rules.ignored:
            hint = did_you_mean(name, honoured | set(rules.unsupported) | rules.ignored)
            raise RequestError(
                f"unknown field {name!r}{hint}; known are {', '.join(sorted(honoured))}",
                param=name,
            )
    return convert(kept, kind)


def convert(content: object, kind: type[StructT], prefix: str = "") -> StructT:
    """Return `content` as a struct; `prefix` is its path in the request.

    Raises:
        RequestError: names the path, what was given and what is expected.
    """
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as reason:
        message, _, place = str(reason).partition(" - at `$")
        path = (prefix + place.removesuffix("`")).lstrip(".")
        named = message[:1].lower() + message[1:].replace("`", "").replace(" | null", "")
        raise RequestError(f"{path or 'the request'}: {named}", param=path or None) from None


def refuse_unless_neutral(name: str, value: object, neutral: tuple[Any, ...]) -> None:
    """Raise RequestError where a value asks for something; `name` is its path in the request."""
    if value is None or any(value == one and type(value) is type(one) for one in neutral):
        return
    instead = (
        f"leave it out or send {msgspec.json.encode(neutral[0]).decode()}"
        if neutral
        else ("leave it out")
    )
    raise RequestError(f"{name} is not supported on this route; {instead}", param=name)
