"""Requests with a body are looked at once it has begun to come.

A refusal may need no body: a wrong name, no key, no such route. But where the body's first bytes
are no HTTP, the server below has answered already, and a second answer ends in a traceback.
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class BodyBeginsMiddleware:
    """Passes a request on when the first part of its body is there; drops it if none comes."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, unless it ended or went wrong before its body began."""
        if scope["type"] != "http" or not _has_body(Headers(scope=scope)):
            await self._app(scope, receive, send)
            return
        first: list[Message] = [await receive()]

        async def replayed() -> Message:
            return first.pop() if first else await receive()

        if first[0]["type"] == "http.request":
            await self._app(scope, replayed, send)


def _has_body(headers: Headers) -> bool:
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
