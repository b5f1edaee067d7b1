"""The names that the server answers to, read from the Host header.

A page on the internet can have its own name resolve to 127.0.0.1 (DNS rebinding). To the browser
the server is then of the page's own origin, and nothing that keeps other origins out applies. The
Host header still has the page's name.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from leeway.core.config import ServerConfig
from leeway.core.config_server import ANY_HOST
from leeway.server.errors import error_response

_LOCAL = ("localhost", "127.0.0.1", "::1")


def allowed_hosts(config: ServerConfig) -> tuple[str, ...]:
    """Return the names in force: `("*",)` for any, else local ones, the address and those given.

    By default a server that only this machine reaches answers to local names, another one to any.
    """
    given = config.allowed_hosts
    if ANY_HOST in (given or ()) or (given is None and not _is_loopback(config.host)):
        return (ANY_HOST,)
    return tuple(dict.fromkeys([*_LOCAL, config.host.lower(), *(given or ())]))


class HostMiddleware:
    """Refuses requests whose Host header has none of the names; the port does not matter.

    A request without the header, which no browser sends, is let through.
    """

    def __init__(self, app: ASGIApp, names: Sequence[str]) -> None:
        self._app = app
        self._names = tuple(names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 403."""
        if scope["type"] == "http":
            for given in Headers(scope=scope).getlist("host"):
                if not self._is_allowed(host_name(given)):
                    await self._refuse(given, scope)(scope, receive, send)
                    return
        await self._app(scope, receive, send)

    def _is_allowed(self, name: str) -> bool:
        return any(
            one in (ANY_HOST, name) or (one.startswith("*.") and name.endswith(one[1:]))
            for one in self._names
        )

    def _refuse(self, given: str, scope: Scope) -> ASGIApp:
        error = HTTPException(
            403,
            f"the Host header is {given[:255]!r}; this server answers to {', '.join(self._names)} "
            "only; to have it answer to another name, start it with --allowed-hosts NAME (* for "
            "any)",
        )
        return error_response(scope, error)


def host_name(host: str) -> str:
    """Return a Host header's name: in small letters, without port, brackets and final dot."""
    name = host.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0].removesuffix(".")


def _is_loopback(address: str) -> bool:
    """Return whether an address to listen on is reached from this machine only."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address.lower() == "localhost"
