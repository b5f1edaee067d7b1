"""The application: routes, middleware and error handlers around one service."""

from __future__ import annotations

import time

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from leeway.acceptance.law_ceiling import build_ceiling
from leeway.acceptance.listing import law_listing
from leeway.acceptance.registry import build_law
from leeway.core.config import ServerConfig
from leeway.core.errors import LeewayError
from leeway.server.access_log import AccessLogMiddleware
from leeway.server.api_key import ApiKeyMiddleware, accepted_keys
from leeway.server.body_begins import BodyBeginsMiddleware
from leeway.server.completions import chat_completions, completions
from leeway.server.cross_origin import cross_origin
from leeway.server.errors import (
    answer_disconnect,
    answer_http_error,
    answer_internal_error,
    answer_leeway_error,
    json_response,
)
from leeway.server.health import PACKAGE_VERSION, health_body
from leeway.server.host_check import HostMiddleware, allowed_hosts
from leeway.server.messages import count_tokens, messages
from leeway.server.metrics import ServerMetrics
from leeway.server.openapi import openapi_document
from leeway.server.page_files import show_page, show_page_file
from leeway.server.request_id import RequestIdMiddleware
from leeway.server.responses import responses
from leeway.server.service_protocol import Service
from leeway.server.state import ServerState
from leeway.server.tokenize import detokenize, tokenize

KEEP_ALIVE_S = 10.0


def create_app(
    service: Service,
    config: ServerConfig,
    *,
    keep_alive_s: float = KEEP_ALIVE_S,
) -> Starlette:
    """Return the application; whoever calls starts and stops the service.

    Args:
        service: the engine's façade, in whatever state.
        config: what the server was started with.
        keep_alive_s: silence after which a stream sends a comment.

    Raises:
        ConfigError: `allow_laws` names an unknown law, or there is no key in the file of keys.
        LawError: the configured law is unknown or its options are out of range.
    """
    law = build_law(config.engine.acceptance)
    app = Starlette(
        routes=_routes(),
        middleware=[
            Middleware(RequestIdMiddleware),
            Middleware(AccessLogMiddleware),
            Middleware(BodyBeginsMiddleware),
            Middleware(HostMiddleware, names=allowed_hosts(config)),
            *cross_origin(config),
            Middleware(ApiKeyMiddleware, keys=accepted_keys(config)),
        ],
        exception_handlers={
            LeewayError: answer_leeway_error,
            HTTPException: answer_http_error,
            ClientDisconnect: answer_disconnect,
            Exception: answer_internal_error,
        },
    )
    app.state.server = ServerState(
        service=service,
        config=config,
        law=law,
        ceiling=build_ceiling(config.allow_laws, config.origin("allow_laws"), law),
        metrics=ServerMetrics(service),
        started_at=int(time.time()),
        keep_alive_s=keep_alive_s,
        max_body_bytes=config.max_body_bytes,
    )
    return app


def _routes() -> list[Route]:
    return [
        Route("/v1/chat/completions", chat_completions, methods=["POST"]),
        Route("/v1/completions", completions, methods=["POST"]),
        Route("/v1/responses", responses, methods=["POST"]),
        Route("/v1/messages", messages, methods=["POST"]),
        Route("/v1/messages/count_tokens", count_tokens, methods=["POST"]),
        Route("/tokenize", tokenize, methods=["POST"]),
        Route("/detokenize", detokenize, methods=["POST"]),
        Route("/v1/models", list_models, methods=["GET"]),
        Route("/v1/models/{model_id:path}", show_model, methods=["GET"]),
        Route("/", show_page, methods=["GET"]),
        Route("/page/{name}", show_page_file, methods=["GET"]),
        Route("/laws", show_laws, methods=["GET"]),
        Route("/health", show_health, methods=["GET"]),
        Route("/health/live", show_liveness, methods=["GET"]),
        Route("/metrics", show_metrics, methods=["GET"]),
        Route("/version", show_version, methods=["GET"]),
        Route("/openapi.json", show_openapi, methods=["GET"]),
    ]


async def list_models(request: Request) -> Response:
    """GET /v1/models."""
    state: ServerState = request.app.state.server
    return json_response({"object": "list", "data": [_model(state)]})


async def show_model(request: Request) -> Response:
    """GET /v1/models/{id}."""
    state: ServerState = request.app.state.server
    state.check_model(request.path_params["model_id"])
    return json_response(_model(state))


async def show_laws(request: Request) -> Response:
    """GET /laws: every law and preset, as `leeway laws --json` prints them."""
    return json_response(law_listing())


async def show_health(request: Request) -> Response:
    """GET /health: 200 when ready, else 503."""
    state: ServerState = request.app.state.server
    body = health_body(state.service, state.config, state.ceiling, state.law)
    return json_response(body, 200 if body["status"] == "ready" else 503)


async def show_liveness(request: Request) -> Response:
    """GET /health/live: 200 unless the engine has failed or ended, whether or not it is ready."""
    state: ServerState = request.app.state.server
    service_state = state.service.state
    is_alive = service_state not in ("failed", "stopped")
    return json_response({"status": service_state}, 200 if is_alive else 503)


async def show_metrics(request: Request) -> Response:
    """GET /metrics."""
    state: ServerState = request.app.state.server
    page, media_type = state.metrics.exposition(request.headers.get("accept", ""))
    return Response(page, headers={"Content-Type": media_type})


async def show_version(request: Request) -> Response:
    """GET /version."""
    return json_response({"version": PACKAGE_VERSION})


async def show_openapi(request: Request) -> Response:
    """GET /openapi.json."""
    return json_response(openapi_document(request.app.state.server))


def _model(state: ServerState) -> dict[str, str | int]:
    name = state.engine().parts.model_name
    return {
        "id": name,
        "object": "model",
        "created": state.started_at,
        "owned_by": "leeway",
        "root": name,
        "max_model_len": state.max_model_len(),
    }
