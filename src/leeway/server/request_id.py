"""X-Request-Id: every response carries the client's own id, or a fresh one.

Anthropic's clients read it as `request-id`.
"""

from __future__ import annotations

import re
import uuid

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = "X-Request-Id"
_ACCEPTED = re.compile(r"[\x21-\x7e]{1,128}")


class RequestIdMiddleware:
    """Puts `request_id` into the scope's state and on the response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application with the header added to its response."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(HEADER, "")
        request_id = given if _ACCEPTED.fullmatch(given) else uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers[HEADER] = headers["request-id"] = request_id
            await send(message)

        await self._app(scope, receive, send_with_id)
