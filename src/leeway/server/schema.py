"""The request bodies: every field that is honoured, with OpenAI's defaults."""

from __future__ import annotations

from typing import Any

import msgspec


class StreamOptions(msgspec.Struct, forbid_unknown_fields=True):
    """How a stream ends; `include_obfuscation` is accepted and adds nothing."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class SamplingFields(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What every API takes. `top_k` 0 and -1 are off; `model` may be left out."""

    model: str | None = None
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    min_tokens: int = 0
    stop_token_ids: list[int] = []
    ignore_eos: bool = False
    logit_bias: dict[str, float] = {}
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    stream: bool = False
    speculative: dict[str, Any] | None = None


class SharedFields(SamplingFields, kw_only=True, forbid_unknown_fields=True):
    """What both completions of OpenAI take."""

    n: int = 1
    max_tokens: int | None = None
    stop: str | list[str] = []
    stream_options: StreamOptions | None = None
    response_format: dict[str, Any] | None = None
    structured_outputs: dict[str, Any] | None = None
    guided_json: str | dict[str, Any] | None = None
    guided_regex: str | None = None
    guided_grammar: str | None = None
    guided_choice: list[str] | None = None


class ChatFields(SharedFields, kw_only=True, forbid_unknown_fields=True):
    """POST /v1/chat/completions."""

    messages: list[dict[str, Any]]
    max_completion_tokens: int | None = None
    logprobs: bool = False
    top_logprobs: int | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool = True
    add_generation_prompt: bool | None = None
    continue_final_message: bool = False


class CompletionFields(SharedFields, kw_only=True, forbid_unknown_fields=True):
    """POST /v1/completions. `logprobs` false is off, as in chat."""

    prompt: str | list[str | int | list[int]]
    echo: bool = False
    logprobs: int | bool | None = None
    best_of: int | None = None


class ResponseFormat(msgspec.Struct, forbid_unknown_fields=True):
    """The form that OpenAI's completions are asked for."""

    type: str
    json_schema: dict[str, Any] | None = None


class JSONSchemaFormat(msgspec.Struct, forbid_unknown_fields=True):
    """The schema under it; `strict` changes nothing: every schema is followed to the letter."""

    name: str | None = None
    schema: dict[str, Any] | None = None
    description: str | None = None
    strict: bool | None = None


class TextFormat(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The schema as /v1/responses are asked for it."""

    type: str
    schema: dict[str, Any]
    name: str | None = None
    description: str | None = None
    strict: bool | None = None


class StructuredOutputs(msgspec.Struct, forbid_unknown_fields=True):
    """The form that vLLM's clients ask for: one of them."""

    json: str | dict[str, Any] | None = None
    regex: str | None = None
    grammar: str | None = None
    choice: list[str] | None = None
    json_object: bool | None = None


class ResponseFields(SamplingFields, kw_only=True, forbid_unknown_fields=True):
    """POST /v1/responses."""

    input: str | list[dict[str, Any]]
    instructions: str | None = None
    max_output_tokens: int | None = None
    stop: str | list[str] = []
    include: list[str] = []
    top_logprobs: int | None = None
    stream_options: dict[str, Any] | None = None
    text: dict[str, Any] | None = None
    tools: list[dict[str, Any]] = []
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool = True
    metadata: dict[str, Any] = {}


class MessagesPrompt(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """POST /v1/messages/count_tokens."""

    messages: list[dict[str, Any]]
    model: str | None = None
    system: str | list[dict[str, Any]] = ""
    tools: list[dict[str, Any]] = []
    tool_choice: dict[str, Any] | None = None
    thinking: dict[str, Any] | None = None
    output_config: dict[str, Any] | None = None
    context_management: dict[str, Any] | None = None


class MessagesFields(SamplingFields, kw_only=True, forbid_unknown_fields=True):
    """POST /v1/messages."""

    messages: list[dict[str, Any]]
    max_tokens: int
    system: str | list[dict[str, Any]] = ""
    tools: list[dict[str, Any]] = []
    tool_choice: dict[str, Any] | None = None
    stop_sequences: list[str] = []
    thinking: dict[str, Any] | None = None
    output_config: dict[str, Any] | None = None
    context_management: dict[str, Any] | None = None


class TokenizeFields(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """POST /tokenize: a prompt or messages."""

    model: str | None = None
    prompt: str | None = None
    messages: list[dict[str, Any]] | None = None
    add_special_tokens: bool | None = None
    add_generation_prompt: bool = True
    return_token_strs: bool = False


class DetokenizeFields(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """POST /detokenize."""

    model: str | None = None
    tokens: list[int]


class Message(msgspec.Struct, forbid_unknown_fields=True):
    """One message of a conversation."""

    role: str
    content: str | list[dict[str, Any]]
    name: str | None = None
    reasoning_content: str | None = None


class CallingMessage(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """An assistant's message that calls tools."""

    role: str
    tool_calls: list[dict[str, Any]]
    content: str | list[dict[str, Any]] | None = None
    name: str | None = None
    reasoning_content: str | None = None


class ToolMessage(msgspec.Struct, forbid_unknown_fields=True):
    """What a tool answered; templates show it in order, so its call's id is not needed."""

    role: str
    content: str | list[dict[str, Any]]
    tool_call_id: str | None = None
    name: str | None = None


class CalledFunction(msgspec.Struct, forbid_unknown_fields=True):
    """What such a message calls."""

    name: str
    arguments: str = ""


class MessageCall(msgspec.Struct, forbid_unknown_fields=True):
    """One of its calls."""

    function: CalledFunction
    id: str | None = None
    type: str = "function"


class ToolFunction(msgspec.Struct, forbid_unknown_fields=True):
    """A function that may be called; `strict` holds calls to its parameters."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(msgspec.Struct, forbid_unknown_fields=True):
    """One of a chat's tools."""

    type: str
    function: ToolFunction


class ChosenFunction(msgspec.Struct, forbid_unknown_fields=True):
    """The function that must be called."""

    name: str


class ToolChoice(msgspec.Struct, forbid_unknown_fields=True):
    """A choice that is more than a word."""

    type: str
    function: ChosenFunction | None = None


class TextPart(msgspec.Struct, forbid_unknown_fields=True):
    """One part of a message's content."""

    type: str
    text: str


class MessagesMessage(msgspec.Struct, forbid_unknown_fields=True):
    """One message of a conversation with Anthropic's client."""

    role: str
    content: str | list[dict[str, Any]]


class MessagesThinking(msgspec.Struct, forbid_unknown_fields=True):
    """Whether the model thinks; `display` changes nothing, for no thinking is shown."""

    type: str
    display: str | None = None


class MessagesOutput(msgspec.Struct, forbid_unknown_fields=True):
    """The form of the answer; `effort` changes nothing."""

    effort: str | None = None
    format: dict[str, Any] | None = None


class MessagesContext(msgspec.Struct, forbid_unknown_fields=True):
    """What of a long conversation is to be left out."""

    edits: list[dict[str, Any]] = []


class MessagesTool(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One of the tools of such a conversation; how its input is streamed is up to the server."""

    name: str
    input_schema: dict[str, Any]
    description: str | None = None
    type: str | None = None
    strict: bool | None = None
    cache_control: dict[str, Any] | None = None
    eager_input_streaming: bool | None = None


class MessagesToolChoice(msgspec.Struct, forbid_unknown_fields=True):
    """What may or must be called."""

    type: str
    name: str | None = None
    disable_parallel_tool_use: bool = False


class MessagesToolUse(msgspec.Struct, forbid_unknown_fields=True):
    """One block that calls a tool."""

    type: str
    name: str
    input: dict[str, Any]
    id: str | None = None
    cache_control: dict[str, Any] | None = None


class MessagesToolResult(msgspec.Struct, forbid_unknown_fields=True):
    """One block with a result; templates show its text alone, in order."""

    type: str
    content: str | list[dict[str, Any]] = ""
    tool_use_id: str | None = None
    is_error: bool | None = None
    cache_control: dict[str, Any] | None = None


class MessagesTextBlock(msgspec.Struct, forbid_unknown_fields=True):
    """One block of such a message's content."""

    type: str
    text: str
    cache_control: dict[str, Any] | None = None
    citations: list[Any] | None = None


class InputMessage(msgspec.Struct, forbid_unknown_fields=True):
    """One message among the input items of /v1/responses; answers may be sent back as they came."""

    role: str
    content: str | list[dict[str, Any]]
    type: str = "message"
    id: str | None = None
    status: str | None = None


class ResponseTool(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One of the tools of /v1/responses."""

    type: str
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ResponseToolChoice(msgspec.Struct, forbid_unknown_fields=True):
    """A choice that is more than a word."""

    type: str
    name: str = ""


class FunctionCallItem(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """An input item that calls a tool."""

    type: str
    name: str
    arguments: str
    call_id: str | None = None
    id: str | None = None
    status: str | None = None


class FunctionCallOutput(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """An input item with a tool's result; templates show them in order, without ids."""

    type: str
    output: str | list[dict[str, Any]]
    call_id: str | None = None
    id: str | None = None
    status: str | None = None


class InputText(msgspec.Struct, forbid_unknown_fields=True):
    """One part of such a message's content."""

    type: str
    text: str
    annotations: list[Any] = []
    logprobs: list[Any] | None = None
