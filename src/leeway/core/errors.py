"""Errors that a user can act on; the tree below is the whole of it.

    LeewayError                    exit code 2, HTTP 400
    ├── ConfigError                a flag, environment variable or file key is wrong or conflicts
    ├── RequestError               a request's field is wrong (names the field)
    │   ├── LawError               unknown law, option or value
    │   │   └── LawNotAllowedError HTTP 403: above the server's ceiling
    │   ├── ContextLengthError     prompt longer than the model's context
    │   ├── CapacityError          the request can never fit the KV cache
    │   └── UnknownModelError      HTTP 404
    ├── ModelError                 a model file cannot be used: corrupt, unknown architecture ...
    │   └── FetchError             a model cannot be had from any source
    ├── SandboxError               exit code 1: the sandbox failed, not the program in it
    ├── BackendError               exit code 1, HTTP 500: a forward failed (e.g. NaN logits)
    ├── UnavailableError           exit code 1, HTTP 503: loading, draining or stopped
    ├── QueueFullError             exit code 1, HTTP 429: too many requests wait already
    └── RequestTimeoutError        exit code 1, HTTP 504: the answer took longer than allowed

Every message names the value, what is allowed and the next step.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class LeewayError(Exception):
    """Base of all errors shown to the user as one message, without a traceback."""

    exit_code = 2
    http_status = 400
    code = "invalid_request_error"
    retry_after_s: int | None = None

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


class ConfigError(LeewayError):
    """A setting is wrong, unknown, or conflicts with another; names where each came from."""

    code = "config_error"


class RequestError(LeewayError):
    """A field of a request is wrong; `param` names it."""


class LawError(RequestError):
    """An acceptance law or one of its options is unknown or out of range."""

    code = "invalid_law"


class LawNotAllowedError(LawError):
    """The law exists, but this server does not let a request choose it."""

    http_status = 403
    code = "law_not_allowed"


class ContextLengthError(RequestError):
    """The prompt does not fit the model's context."""

    code = "context_length_exceeded"


class CapacityError(RequestError):
    """The request can never fit the KV cache that this process was given."""

    code = "kv_capacity_exceeded"


class UnknownModelError(RequestError):
    """The request names a model that is not served."""

    http_status = 404
    code = "model_not_found"


class ModelError(LeewayError):
    """A model file cannot be used."""

    code = "model_error"


class FetchError(ModelError):
    """A model cannot be had from any of its sources."""

    code = "model_unavailable"


class SandboxError(LeewayError):
    """Model-written code could not be run; says nothing of the code."""

    exit_code = 1
    http_status = 500
    code = "sandbox_error"


class BackendError(LeewayError):
    """A forward pass failed."""

    exit_code = 1
    http_status = 500
    code = "backend_error"


class UnavailableError(LeewayError):
    """The engine takes no requests now."""

    exit_code = 1
    http_status = 503
    code = "unavailable"


class QueueFullError(LeewayError):
    """Too many requests wait already; `retry_after_s` is when a place may be free."""

    exit_code = 1
    http_status = 429
    code = "queue_full"

    def __init__(self, message: str, *, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class RequestTimeoutError(LeewayError):
    """A request was not finished in the time that the server allows."""

    exit_code = 1
    http_status = 504
    code = "request_timeout"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" for the closest known word, or an empty string."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
