"""Prompts: messages or completion prompts to token ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leeway.core.errors import RequestError
from leeway.server.fields import convert
from leeway.server.schema import CallingMessage, Message, TextPart, ToolMessage
from leeway.server.service_protocol import ServedParts, ServedTemplate
from leeway.server.tool_messages import read_calls

MAX_PROMPTS = 64
ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
EMPTY_IN_MESSAGES = ("annotations", "audio", "function_call", "refusal", "tool_calls")


def chat_prompt(
    parts: ServedParts,
    messages: list[dict[str, Any]],
    tools: list[dict[str, Any]] | None = None,
    *,
    continues: bool = False,
) -> list[int]:
    """Return the ids of a conversation, ready for the assistant's turn; `tools` are shown in it.

    Where it `continues`, that turn has begun: it is the last message.

    Raises:
        RequestError: a message is malformed, or the model's template refuses the conversation.
    """
    return chat_ids(parts, render_chat(parts, messages, tools=tools, continues=continues))


def render_chat(
    parts: ServedParts,
    messages: list[dict[str, Any]],
    *,
    add_generation_prompt: bool = True,
    tools: list[dict[str, Any]] | None = None,
    continues: bool = False,
) -> str:
    """Return the text of a conversation under the model's template. Raises RequestError."""
    if not messages:
        raise RequestError("messages is empty; send at least one", param="messages")
    template = parts.chat_template
    plain = [_read_message(template, raw, f"messages[{i}]") for i, raw in enumerate(messages)]
    shown = {} if tools is None else {"tools": tools}
    if continues:
        return render_begun(template, plain, f"messages[{len(messages) - 1}]", shown)
    return template.render(plain, add_generation_prompt=add_generation_prompt, **shown)


def render_begun(
    template: ServedTemplate,
    messages: Sequence[Mapping[str, Any]],
    path: str,
    shown: Mapping[str, Any],
) -> str:
    """Return the text of a conversation up to the end of its last message, to be gone on there.

    Args:
        template: the model's.
        messages: plain ones.
        path: the last one's place in the request.
        shown: further variables of the template.

    Raises:
        RequestError: it is no text of the assistant's, or the template writes it otherwise than an
            answer that has begun so.
    """
    *before, last = messages
    if last["role"] != "assistant" or "tool_calls" in last or "reasoning_content" in last:
        raise RequestError(
            f"{path} cannot be continued; end the messages with one of the role 'assistant' that "
            "has nothing but content",
            param=path,
        )
    begun = template.render(before, **shown) + str(last["content"])
    if not template.render(messages, add_generation_prompt=False, **shown).startswith(begun):
        raise RequestError(
            f"{path}.content cannot be continued: the model's template does not write it as it "
            "stands; let it not end with white space, or leave the message out",
            param=f"{path}.content",
        )
    return begun


def chat_ids(parts: ServedParts, text: str) -> list[int]:
    """Return the ids of a rendered conversation. Raises RequestError where there are none."""
    return _checked(parts, parts.tokenizer.encode(text, add_special=False), "messages")


def completion_prompts(
    parts: ServedParts, prompt: str | list[str | int | list[int]]
) -> list[list[int]]:
    """Return the ids of each prompt: a text, texts, one list of ids, or several.

    Raises:
        RequestError: empty, mixed, too many, or an id outside the vocabulary.
    """
    if isinstance(prompt, str):
        return [_encode(parts, prompt, "prompt")]
    if not prompt:
        raise RequestError("prompt is an empty list; send at least one prompt", param="prompt")
    if all(isinstance(item, int) for item in prompt):
        return [_checked(parts, [item for item in prompt if isinstance(item, int)], "prompt")]
    if len(prompt) > MAX_PROMPTS:
        raise RequestError(
            f"prompt has {len(prompt)} prompts; allowed: up to {MAX_PROMPTS}", param="prompt"
        )
    prompts: list[list[int]] = []
    for index, item in enumerate(prompt):
        path = f"prompt[{index}]"
        if isinstance(item, int):
            raise RequestError(
                f"{path} is a token id among texts; send texts, one list of token ids, or "
                "several lists",
                param="prompt",
            )
        if isinstance(item, str):
            prompts.append(_encode(parts, item, path))
        else:
            prompts.append(_checked(parts, item, path))
    return prompts


def echo_text(
    parts: ServedParts,
    prompt: str | list[str | int | list[int]],
    prompts: list[list[int]],
    index: int,
) -> str:
    """Return the text of one of `completion_prompts`, as it came, or of its ids."""
    given = prompt if isinstance(prompt, str) else prompt[index]
    if isinstance(given, str):
        return given
    return parts.tokenizer.decode(prompts[index], with_special=True)


def _encode(parts: ServedParts, text: str, path: str) -> list[int]:
    return _checked(parts, parts.tokenizer.encode(text), path)


def _checked(parts: ServedParts, token_ids: list[int], path: str) -> list[int]:
    if not token_ids:
        raise RequestError(f"{path} has no tokens; send at least one", param=path)
    check_ids(parts, token_ids, path)
    return token_ids


def check_ids(parts: ServedParts, token_ids: Sequence[int], path: str) -> None:
    """Raise RequestError naming the first id that is no token's."""
    vocab_size = parts.tokenizer.vocab_size
    for token_id in token_ids:
        if not 0 <= token_id < vocab_size:
            raise RequestError(
                f"{path} has the token id {token_id}; allowed: 0 to {vocab_size - 1}", param=path
            )


def _read_message(template: ServedTemplate, raw: dict[str, Any], path: str) -> dict[str, Any]:
    kept = {name: value for name, value in raw.items() if value is not None}
    for name in EMPTY_IN_MESSAGES:
        if kept.get(name) == []:
            del kept[name]
    calls_tools = template.tool_dialect is not None
    role = kept.get("role")
    if calls_tools and role == "tool":
        tool = convert(kept, ToolMessage, path)
        return {"role": "tool", "content": _read_content(tool.content, path)}
    calls = kept.get("tool_calls") if calls_tools and role == "assistant" else None
    allowed = {"tool_calls"} if calls is not None else set()
    if template.reasons and role == "assistant":
        allowed.add("reasoning_content")
    for name in (*EMPTY_IN_MESSAGES, "reasoning_content"):
        if name in kept and name not in allowed:
            raise RequestError(
                f"{path}.{name} is not supported by this server; leave it out",
                param=f"{path}.{name}",
            )
    message: Message | CallingMessage = (
        convert(kept, Message, path) if calls is None else convert(kept, CallingMessage, path)
    )
    return _plain_message(message, path, calls_tools=calls_tools)


def _plain_message(
    message: Message | CallingMessage, path: str, *, calls_tools: bool
) -> dict[str, Any]:
    if message.role not in ROLES:
        known = ", ".join(sorted({*ROLES, "tool"} if calls_tools else ROLES))
        hint = "" if calls_tools else " (tools are not supported by this model's template)"
        raise RequestError(
            f"{path}.role is {message.role!r}; allowed: {known}{hint}", param=f"{path}.role"
        )
    content = "" if message.content is None else _read_content(message.content, path)
    plain: dict[str, Any] = {"role": ROLES[message.role], "content": content}
    if isinstance(message, CallingMessage):
        plain["tool_calls"] = read_calls(message.tool_calls, path)
    if message.reasoning_content is not None:
        plain["reasoning_content"] = message.reasoning_content
    if message.name is not None:
        plain["name"] = message.name
    return plain


def _read_content(content: str | list[dict[str, Any]], path: str) -> str:
    if isinstance(content, str):
        return content
    texts: list[str] = []
    for index, raw in enumerate(content):
        place = f"{path}.content[{index}]"
        if raw.get("type") != "text":
            raise RequestError(
                f"{place}.type is {raw.get('type')!r}; allowed: 'text'", param=f"{place}.type"
            )
        texts.append(convert(raw, TextPart, place).text)
    return "\n".join(texts)
