"""Messages to one prompt string, by the template that the model was trained with.

In: messages as OpenAI clients write them. Out: text, byte for byte what the `transformers` library
renders: the same sandbox, whitespace rules, filters and functions. Templates come with model files
and are not trusted: they run in a sandbox that bars Python internals and changes to the messages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from leeway.core.errors import RequestError
from leeway.text import reasoning
from leeway.text.tokenizer import Tokenizer
from leeway.text.tool_calls.dialect import Dialect, find_dialect


class ChatTemplate:
    """The chat template of one model; `template` None means that it has none."""

    def __init__(self, template: str | None, tokenizer: Tokenizer) -> None:
        self._source = template
        self._compiled: jinja2.Template | None = None
        self._tokens = {
            "bos_token": _name(tokenizer, tokenizer.bos_token_id),
            "eos_token": _name(tokenizer, next(iter(tokenizer.eos_token_ids), None)),
        }

    @property
    def exists(self) -> bool:
        """Whether the model has a template, that is, can chat."""
        return self._source is not None

    @property
    def tool_dialect(self) -> Dialect | None:
        """How the model writes tool calls; None where its template has no place for tools."""
        return find_dialect(self._source)

    @property
    def reasons(self) -> bool:
        """Whether the model may think aloud before it answers, by its template."""
        return self._source is not None and reasoning.CLOSE in self._source

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        **extra: object,
    ) -> str:
        """Return the prompt; `extra` are further variables of the template (tools, documents ...).

        Raises:
            RequestError: the model has no template, the template is broken, or it refuses these
                messages (then with its own words).
        """
        variables = {"tools": None, "documents": None, **self._tokens, **extra}
        try:
            return self._template().render(
                messages=messages, add_generation_prompt=add_generation_prompt, **variables
            )
        except RequestError:
            raise
        except Exception as error:  # the template is a program of the model file: all may happen
            raise RequestError(
                f"the model's chat template refuses these messages: {error}", param="messages"
            ) from error

    def _template(self) -> jinja2.Template:
        if self._source is None:
            raise RequestError(
                "this model has no chat template, so it cannot take messages; send a plain prompt "
                "to /v1/completions",
                param="messages",
            )
        if self._compiled is None:
            try:
                self._compiled = _environment().from_string(self._source)
            except jinja2.TemplateError as error:
                raise RequestError(
                    f"the model's chat template is broken: {error}; send a plain prompt to "
                    "/v1/completions",
                    param="messages",
                ) from error
        return self._compiled


class _GenerationBlock(Extension):
    """`{% generation %}`: marks the assistant's words for training; renders as its content."""

    tags = {"generation"}  # noqa: RUF012 - the base class declares it so

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationBlock, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _strftime_now(pattern: str) -> str:
    return datetime.now().strftime(pattern)


def _name(tokenizer: Tokenizer, token_id: int | None) -> str:
    return "" if token_id is None else tokenizer.token_text(token_id) or ""
