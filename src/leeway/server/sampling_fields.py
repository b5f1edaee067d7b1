"""From a request's fields to `SamplingParams`; ranges are checked by the sampling room."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from leeway.core.errors import RequestError
from leeway.core.types import SamplingParams
from leeway.server.schema import ChatFields, CompletionFields, SamplingFields, SharedFields
from leeway.server.service_protocol import ServedBackend

MAX_STOP_STRINGS = 16
COMPLETION_MAX_TOKENS = 16  # OpenAI's default for /v1/completions


def read_max_tokens(fields: SharedFields) -> int | None:
    """Return how many tokens the request asks for at most; None when it does not say.

    Raises:
        RequestError: below 0, or two different numbers.
    """
    asked = {"max_tokens": fields.max_tokens}
    if isinstance(fields, ChatFields):
        asked["max_completion_tokens"] = fields.max_completion_tokens
    given = {name: value for name, value in asked.items() if value is not None}
    for name, value in given.items():
        check_max_tokens(name, value)
    if len(set(given.values())) > 1:
        raise RequestError(
            f"max_tokens is {fields.max_tokens} and max_completion_tokens "
            f"{given['max_completion_tokens']}; send one of them",
            param="max_completion_tokens",
        )
    if not given and isinstance(fields, CompletionFields):
        return COMPLETION_MAX_TOKENS
    return next(iter(given.values()), None)


def check_max_tokens(name: str, value: int) -> None:
    """Raise RequestError where a limit is no number of tokens."""
    if value < 0:
        raise RequestError(
            f"{name} is {value}; allowed: 0 (only read the prompt) or more", param=name
        )


def read_stop(stop: str | Sequence[str], name: str = "stop") -> tuple[str, ...]:
    """Return the stop strings. Raises RequestError where there are too many, or an empty one."""
    stops = (stop,) if isinstance(stop, str) else tuple(stop)
    if len(stops) > MAX_STOP_STRINGS:
        raise RequestError(
            f"{name} has {len(stops)} strings; allowed: up to {MAX_STOP_STRINGS}", param=name
        )
    if any(not text for text in stops):
        raise RequestError(f"{name} is ''; allowed: non-empty strings", param=name)
    return stops


def room_for_answer(backend: ServedBackend, prompt_len: int) -> int:
    """Return how many tokens may follow a prompt: what context and cache leave, at least 1."""
    slots = backend.capacity_tokens // backend.block_len * backend.block_len
    return max(1, min(backend.context_len, slots) - prompt_len)


def read_sampling(
    fields: SamplingFields, max_tokens: int, stop: Sequence[str] = ()
) -> SamplingParams:
    """Return the sampling parameters of a request.

    Raises:
        RequestError: a `logit_bias` key is not a token id.
    """
    return SamplingParams(
        temperature=fields.temperature,
        top_k=max(fields.top_k, 0) if fields.top_k == -1 else fields.top_k,
        top_p=fields.top_p,
        min_p=fields.min_p,
        seed=fields.seed,
        max_tokens=max_tokens,
        min_tokens=fields.min_tokens,
        stop=tuple(stop),
        stop_token_ids=tuple(fields.stop_token_ids),
        ignore_eos=fields.ignore_eos,
        logit_bias=MappingProxyType(_read_logit_bias(fields.logit_bias)),
        presence_penalty=fields.presence_penalty,
        frequency_penalty=fields.frequency_penalty,
        repetition_penalty=fields.repetition_penalty,
    )


_MAX_ID_DIGITS = 18


def _read_logit_bias(raw: dict[str, float]) -> dict[int, float]:
    bias: dict[int, float] = {}
    for key, value in raw.items():
        if not key.isascii() or not key.isdigit() or len(key) > _MAX_ID_DIGITS:
            raise RequestError(
                f"logit_bias has the key {key!r}; keys are token ids in decimal",
                param="logit_bias",
            )
        bias[int(key)] = value
    return bias
