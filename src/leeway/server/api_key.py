"""The API key: asked of every route that reads text when one is configured; else any will do.

OpenAI's clients send it as `Authorization: Bearer KEY`, Anthropic's as `x-api-key: KEY`.
"""

from __future__ import annotations

import hmac

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from leeway.server.errors import error_response

_ASKED = ("/v1/", "/tokenize", "/detokenize")


class ApiKeyMiddleware:
    """Refuses requests that do not carry the key (compared in constant time)."""

    def __init__(self, app: ASGIApp, api_key: str | None) -> None:
        self._app = app
        self._expected = None if api_key is None else api_key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 401."""
        if self._expected is None or not scope.get("path", "").startswith(_ASKED):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        kind, _, bearer = headers.get("Authorization", "").partition(" ")
        given = [headers.get("X-Api-Key", ""), bearer if kind == "Bearer" else ""]
        matches = [hmac.compare_digest(one.encode("latin-1"), self._expected) for one in given]
        if any(matches):
            await self._app(scope, receive, send)
            return
        error = HTTPException(
            401, "this server asks for its API key; send Authorization: Bearer KEY or x-api-key"
        )
        await error_response(scope, error, {"WWW-Authenticate": "Bearer"})(scope, receive, send)
