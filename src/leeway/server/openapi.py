"""GET /openapi.json: every route, what it takes and what it answers, for this very server.

Bodies come from the tables that read them (`openapi_fields`), so that the two cannot differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from leeway.server import schema
from leeway.server.api_key import ASKED
from leeway.server.fields import OPENAI, FieldRules
from leeway.server.health import PACKAGE_VERSION
from leeway.server.messages import MESSAGES_RULES
from leeway.server.openapi_answers import ANSWERS, TEXT
from leeway.server.openapi_fields import REF, Kind, field_schemas, speculative_schema
from leeway.server.responses import RESPONSES_RULES
from leeway.server.state import ServerState
from leeway.server.tokenize import TOKENIZE_RULES

Schema = dict[str, Any]

VERSION = "3.1.0"
_JSON, _STREAM = "application/json", "text/event-stream"
_BEARER: Schema = {"bearer": []}
_HEADER: Schema = {"x_api_key": []}

BODIES: dict[str, tuple[Kind, FieldRules]] = {
    "/v1/chat/completions": (schema.ChatFields, OPENAI),
    "/v1/completions": (schema.CompletionFields, OPENAI),
    "/v1/responses": (schema.ResponseFields, RESPONSES_RULES),
    "/v1/messages": (schema.MessagesFields, MESSAGES_RULES),
    "/v1/messages/count_tokens": (schema.MessagesPrompt, MESSAGES_RULES),
    "/tokenize": (schema.TokenizeFields, TOKENIZE_RULES),
    "/detokenize": (schema.DetokenizeFields, TOKENIZE_RULES),
}
"""The struct that reads each route's body, and what becomes of other names."""

_CAUSES = {
    400: "The request is wrong; the message names the field, what is allowed and what to do.",
    401: "The server asks for a key.",
    403: "The law is above the server's ceiling, or the Host header has a name not answered to.",
    404: "Another model, or no such route.",
    405: "Another method.",
    413: "The body is larger than --max-body-bytes.",
    415: "The body is not application/json.",
    429: "As many requests run and wait as may; Retry-After says when to try again.",
    500: "A forward failed, or a defect.",
    503: "Loading, draining, stopping or failed.",
    504: "The answer took longer than --request-timeout-s.",
}
"""Every status of an error, on routes that take a body."""


@dataclass(frozen=True, slots=True)
class _Route:
    """What is said of a route; `media` beside JSON, or instead of it where there is no `answer`."""

    summary: str
    answer: str | None = None
    media: tuple[str, ...] = ()
    refusals: tuple[int, ...] = (403, 405, 500)
    parameter: str | None = None


_POST = tuple(_CAUSES)
_ROUTES: dict[str, _Route] = {
    "/v1/chat/completions": _Route("OpenAI chat completions", "ChatCompletion", (_STREAM,), _POST),
    "/v1/completions": _Route("OpenAI completions", "Completion", (_STREAM,), _POST),
    "/v1/responses": _Route("OpenAI responses", "Response", (_STREAM,), _POST),
    "/v1/messages": _Route("Anthropic messages", "MessagesAnswer", (_STREAM,), _POST),
    "/v1/messages/count_tokens": _Route("Tokens of such a prompt", "TokenCount", (), _POST),
    "/tokenize": _Route("Text or messages to token ids", "Tokens", (), _POST),
    "/detokenize": _Route("Token ids to text", "Detokenized", (), _POST),
    "/v1/models": _Route("The model that is served", "Models", (), (401, 403, 405, 500, 503)),
    "/v1/models/{id}": _Route(
        "The same, by its name", "Model", (), (401, 403, 404, 405, 500, 503), "id"
    ),
    "/": _Route("The page", None, ("text/html",)),
    "/page/{name}": _Route("What it is made of", None, ("*/*",), (403, 404, 405, 500), "name"),
    "/laws": _Route("Every law and preset", "Laws"),
    "/health": _Route("Whether it is ready; which law judges", "Health"),
    "/health/live": _Route("Whether it is alive", "Liveness"),
    "/metrics": _Route("Prometheus", None, ("text/plain", "application/openmetrics-text")),
    "/version": _Route("The package's version", "Version"),
    "/openapi.json": _Route("This document", None, (_JSON,)),
}


def openapi_document(state: ServerState) -> Schema:
    """Return the document of one server: ranges and laws are those that its settings allow."""
    config = state.config
    has_key = (config.api_key or config.api_key_file) is not None
    return {
        "openapi": VERSION,
        "info": {
            "title": "Leeway",
            "version": PACKAGE_VERSION,
            "description": "A field that is null is left out; any other name than those listed is "
            "refused.",
        },
        "paths": {path: _path(path, one, has_key=has_key) for path, one in _ROUTES.items()},
        "components": {
            "schemas": {
                **field_schemas(BODIES.values()),
                "Speculative": speculative_schema(config.engine, state.ceiling),
                **ANSWERS,
            },
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "x_api_key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
    }


def _path(path: str, route: _Route, *, has_key: bool) -> Schema:
    operation: Schema = {"summary": route.summary, "responses": _responses(path, route)}
    if path.startswith(ASKED):
        operation["security"] = [_BEARER, _HEADER, *([] if has_key else [{}])]
    if route.parameter is not None:
        operation["parameters"] = [
            {"name": route.parameter, "in": "path", "required": True, "schema": TEXT}
        ]
    if path not in BODIES:
        return {"get": operation}
    kind, _ = BODIES[path]
    content = {_JSON: {"schema": {"$ref": REF + kind.__name__}}}
    return {"post": {**operation, "requestBody": {"required": True, "content": content}}}


def _responses(path: str, route: _Route) -> Schema:
    answer = {} if route.answer is None else {_JSON: {"schema": {"$ref": REF + route.answer}}}
    content = {**answer, **{media: {} for media in route.media}}
    found: Schema = {"200": {"description": "The answer.", "content": content}}
    error = "MessagesError" if path.startswith("/v1/messages") else "Error"
    for status in route.refusals:
        refused = {_JSON: {"schema": {"$ref": REF + error}}}
        found[str(status)] = {"description": _CAUSES[status], "content": refused}
    if path in ("/health", "/health/live"):  # the same body says why
        found["503"] = {"description": "Not yet, or no more.", "content": answer}
    return found
