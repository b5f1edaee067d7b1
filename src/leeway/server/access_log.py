"""The access log: one line a request, when it has ended; never what was asked or answered.

Left out are probes, which come every few seconds, and the query of a URL, where a client may have
put a secret.
"""

from __future__ import annotations

import logging
import time
from dataclasses import asdict, dataclass
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

PROBES = ("/health", "/health/live", "/metrics")
CLIENT_LEFT = 499
"""What stands for a status where the client left before there was one, as nginx writes it."""

log = logging.getLogger("leeway")


@dataclass(frozen=True, slots=True)
class Access:
    """One request that has ended.

    `is_whole`: whether all of the answer was sent; a client may leave in the middle.
    """

    request_id: str
    client: str
    method: str
    path: str
    http_version: str
    status: int
    duration_s: float
    is_whole: bool

    def line(self) -> str:
        """Return the line for people."""
        left = "" if self.is_whole else ", the client left"
        return (
            f'{self.client} - "{self.method} {self.path} HTTP/{self.http_version}" '
            f"{self.status} in {self.duration_s:.3f} s{left}, request {self.request_id}"
        )


class AccessLogMiddleware:
    """Logs every request behind it; the request's id must be in the scope's state."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application and log how it went."""
        if scope["type"] != "http" or scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        began = time.monotonic()
        status, is_whole = CLIENT_LEFT, False

        async def watched(message: Message) -> None:
            nonlocal status, is_whole
            if message["type"] == "http.response.start":
                status = message["status"]
            elif message["type"] == "http.response.body":
                is_whole = not message.get("more_body", False)
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception:
            if status == CLIENT_LEFT:  # nothing was sent: it is answered further out
                status, is_whole = 500, True
            raise
        finally:
            _log(scope, status, time.monotonic() - began, is_whole=is_whole)


def _log(scope: Scope, status: int, seconds: float, *, is_whole: bool) -> None:
    client = scope.get("client")
    access = Access(
        request_id=scope["state"]["request_id"],
        client=f"{client[0]}:{client[1]}" if client else "-",
        method=scope["method"],
        path=quote(scope["path"]),  # no line break of a path begins a line of ours
        http_version=scope["http_version"],
        status=status,
        duration_s=round(seconds, 4),
        is_whole=is_whole,
    )
    log.info("%s", access.line(), extra={"fields": asdict(access)})
