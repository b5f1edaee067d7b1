"""Errors as clients read them, with a status.

OpenAI's shape is {"error": {message, type, param, code}}; under /v1/messages Anthropic's clients
get their own, {"type": "error", "error": {type, message}, "request_id"}.

`LeewayError` carries its own status and code. What only HTTP can get wrong (no such route, body too
large, not ready) is Starlette's `HTTPException`; anything else is an internal error, whose cause
goes to the log and not to the client.
"""

from __future__ import annotations

import http
import logging
from collections.abc import Mapping
from typing import Any, NoReturn

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from leeway.core.errors import LeewayError
from leeway.server.request_id import HEADER

log = logging.getLogger("leeway")

ROUTES = (
    "POST /v1/chat/completions, POST /v1/completions, POST /v1/responses, POST /v1/messages, "
    "POST /v1/messages/count_tokens, POST /tokenize, POST /detokenize, GET /v1/models, "
    "GET /v1/models/{id}, GET /laws, GET /health, GET /health/live, GET /metrics, GET /version, "
    "GET /openapi.json, GET /, GET /page/{name}"
)
_MESSAGES = "/v1/messages"
_ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    413: "request_too_large",
    415: "invalid_request_error",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
_CODES = {
    401: "invalid_api_key",
    403: "host_not_allowed",
    404: "not_found",
    405: "method_not_allowed",
    413: "body_too_large",
    415: "unsupported_media_type",
    503: "unavailable",
}


def error_body(error: BaseException) -> tuple[int, dict[str, Any]]:
    """Return the status and the body of an error."""
    param: str | None = None
    if isinstance(error, LeewayError):
        status, code, message, param = error.http_status, error.code, error.message, error.param
    elif isinstance(error, HTTPException):
        status = error.status_code
        code = _CODES.get(status, "http_error")
        message = error.detail
    else:
        status, code = 500, "internal_error"
        message = "internal error; the server's log has its cause"
    kind = "invalid_request_error" if status < 500 else "server_error"
    kind = "rate_limit_error" if status == 429 else kind
    content = {"message": message, "type": kind, "param": param, "code": code}
    return status, {"error": content}


def anthropic_error_body(error: BaseException, request_id: str) -> tuple[int, dict[str, Any]]:
    """Return the status and the body of an error in Anthropic's shape."""
    status, body = error_body(error)
    kind = _ANTHROPIC_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
    content = {"type": kind, "message": body["error"]["message"]}
    return status, {"type": "error", "error": content, "request_id": request_id}


def error_response(
    scope: Scope, error: BaseException, headers: Mapping[str, str] | None = None
) -> Response:
    """Return an error as the clients of its route read it."""
    if scope["path"].startswith(_MESSAGES):
        status, body = anthropic_error_body(error, scope["state"]["request_id"])
    else:
        status, body = error_body(error)
    return json_response(body, status, headers)


def json_response(
    content: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a JSON response."""
    return Response(
        msgspec.json.encode(content), status, headers=headers, media_type="application/json"
    )


async def answer_leeway_error(request: Request, error: Exception) -> Response:
    """Answer an error that names a user's mistake, or a failed forward."""
    assert isinstance(error, LeewayError)
    if error.http_status >= 500:
        log.error("request %s failed: %s", request.scope["state"]["request_id"], error)
    headers = {} if error.retry_after_s is None else {"Retry-After": str(error.retry_after_s)}
    return error_response(request.scope, error, headers)


async def answer_http_error(request: Request, error: Exception) -> Response:
    """Answer what only HTTP can get wrong."""
    assert isinstance(error, HTTPException)
    if error.detail == http.HTTPStatus(error.status_code).phrase:
        asked = f"{request.method} {request.url.path}"
        error = HTTPException(
            error.status_code, f"no route {asked}; there are {ROUTES}", headers=error.headers
        )
    return error_response(request.scope, error, error.headers)


async def answer_internal_error(request: Request, error: Exception) -> Response:
    """Answer a defect of ours; uvicorn logs the traceback."""
    headers = {HEADER: request.scope["state"]["request_id"]}
    return error_response(request.scope, error, headers)


async def answer_disconnect(request: Request, error: Exception) -> Response:
    """Close quietly: the client left before its request was read."""
    return Response(status_code=400)


def refuse_unready(state: str, error: Exception | None) -> NoReturn:
    """Raise 503: the model is loading, failed to load, or the server is stopping."""
    if state == "loading":
        raise HTTPException(
            503, "the model is loading; GET /health says when it is ready", {"Retry-After": "1"}
        )
    if state == "failed":
        raise HTTPException(503, f"the model could not be loaded: {error}")
    raise HTTPException(503, "the server is stopping")
