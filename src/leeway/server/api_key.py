"""The API key: asked of every /v1 request when one is configured; otherwise any is accepted."""

from __future__ import annotations

import hmac

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from leeway.server.errors import error_body, json_response


class ApiKeyMiddleware:
    """Refuses /v1 requests whose bearer token is not the key (compared in constant time)."""

    def __init__(self, app: ASGIApp, api_key: str | None) -> None:
        self._app = app
        self._expected = None if api_key is None else f"Bearer {api_key}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 401."""
        if self._expected is None or not scope.get("path", "").startswith("/v1/"):
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("Authorization", "").encode("latin-1")
        if hmac.compare_digest(given, self._expected):
            await self._app(scope, receive, send)
            return
        status, body = error_body(
            HTTPException(401, "this server asks for its API key; send Authorization: Bearer KEY")
        )
        response = json_response(body, status, {"WWW-Authenticate": "Bearer"})
        await response(scope, receive, send)
