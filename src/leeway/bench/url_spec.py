"""Arms that are servers: any OpenAI-compatible URL, as a user writes it.

    [NAME=]url:URL[,OPTION=VALUE...]

`model=NAME` is the name to ask for; `send=tokens|text|messages` how a prompt goes over;
`body.FIELD=VALUE` puts one more field into every body, dots for fields within fields. In: text.
Out: checked specs. Connects to nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from leeway.bench.arm_spec import split_name
from leeway.bench.http_stream import check_url
from leeway.core.errors import ConfigError, did_you_mean

PREFIX = "url:"
SENDS = {
    "tokens": "the prompt's token ids to /completions",
    "text": "the prompt's tokens as text to /completions",
    "messages": "the conversation to /chat/completions, for the server's own chat template",
}
GRAMMAR = (
    "write [NAME=]url:URL[,model=NAME][,send=tokens|text|messages][,body.FIELD=VALUE...], like "
    "other=url:http://127.0.0.1:8080/v1,body.cache_prompt=false"
)
_BODY = "body."
_OWN_FIELDS = (
    *("prompt", "messages", "model", "stream", "stream_options"),
    *("max_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "stop"),
)
_FIELD = re.compile(r"[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*")


@dataclass(frozen=True, slots=True)
class UrlSpec:
    """One server.

    Attributes:
        url: of the API, ending in a path such as /v1.
        model: name to ask for; None asks the server which one it has.
        send: a key of `SENDS`.
        extra: more fields of every body, by dotted name.
        shown: what a definition says in place of the URL; for servers that a run starts itself.
    """

    name: str
    url: str
    model: str | None = None
    send: str = "tokens"
    extra: Mapping[str, Any] = field(default_factory=dict)
    shown: str | None = None

    @property
    def text(self) -> str:
        """The whole definition in the grammar of this module."""
        parts = [self.shown or PREFIX + self.url]
        if self.model is not None:
            parts.append(f"model={self.model}")
        parts.append(f"send={self.send}")
        parts += (f"{_BODY}{key}={json.dumps(value)}" for key, value in self.extra.items())
        return ",".join(parts)


def is_url(text: str) -> bool:
    """Return whether an arm is a server by its URL."""
    return text.strip().startswith(PREFIX) or f"={PREFIX}" in text


def parse_url(text: str) -> UrlSpec:
    """Return the server that an arm's text names.

    Raises:
        ConfigError: the text does not follow the grammar.
    """
    name, spec = split_name(text)
    if not spec.startswith(PREFIX):
        raise ConfigError(f"arm {text!r} is not an arm; {GRAMMAR}", param="arm")
    url, *words = spec.removeprefix(PREFIX).split(",")
    model, send, extra = read_options(text, words)
    return UrlSpec(name or spec, check_url(url, f"arm {text!r}"), model, send or "tokens", extra)


def read_options(text: str, words: Sequence[str]) -> tuple[str | None, str | None, dict[str, Any]]:
    """Return model, send and extra fields of an arm's options; None where not given.

    Raises:
        ConfigError: an option is unknown, given twice or has a value that is not allowed.
    """
    given: dict[str, str] = {}
    for word in words:
        key, sign, value = (part.strip() for part in word.partition("="))
        if not sign or not key or not value:
            raise ConfigError(f"arm {text!r} holds {word!r}; {GRAMMAR}", param="arm")
        if key in given:
            raise ConfigError(f"arm {text!r} gives {key!r} twice", param="arm")
        given[key] = value
    model, send = given.pop("model", None), given.pop("send", None)
    if send is not None and send not in SENDS:
        raise ConfigError(
            f"arm {text!r} has send={send}{did_you_mean(send, SENDS)}; allowed: "
            + "; ".join(f"{name} ({meaning})" for name, meaning in SENDS.items()),
            param="arm",
        )
    return model, send, {_field(text, key): _value(value) for key, value in given.items()}


def nested(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return dotted fields as objects within objects: `a.b` 1 as `{"a": {"b": 1}}`."""
    found: dict[str, Any] = {}
    for path, value in extra.items():
        *outer, last = path.split(".")
        place = found
        for key in outer:
            place = place.setdefault(key, {})
            if not isinstance(place, dict):
                raise ConfigError(f"body.{path} lies within a field that is no object")
        if last in place:
            raise ConfigError(f"body.{path} is given as a value and as an object")
        place[last] = value
    return found


def _field(text: str, key: str) -> str:
    name = key.removeprefix(_BODY)
    if name == key or not _FIELD.fullmatch(name):
        hint = did_you_mean(key, ("model", "send"))
        raise ConfigError(f"arm {text!r} has the option {key!r}{hint}; {GRAMMAR}", param="arm")
    if name in _OWN_FIELDS:
        raise ConfigError(
            f"arm {text!r} sets body.{name}, which all arms of a run share; use --{name} or the "
            "arm's own options",
            param="arm",
        )
    return name


def _value(text: str) -> Any:  # noqa: ANN401 - any JSON value
    try:
        return json.loads(text)
    except ValueError:
        return text
