"""The listening socket, taken before anything slow is begun."""

from __future__ import annotations

import errno
import socket

from leeway.core.errors import ConfigError

_BACKLOG = 2048


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on the address; port 0 takes a free one.

    Raises:
        ConfigError: the port is taken or not allowed, or the host is not one of this machine's.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as reason:
        raise ConfigError(
            f"host {host!r} cannot be resolved ({reason}); --host takes a name or an address of "
            "this machine, such as 127.0.0.1",
            param="host",
        ) from None
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as reason:
        listener.close()
        raise _refusal(host, port, reason) from None
    listener.setblocking(False)
    return listener


def url_of(listener: socket.socket, host: str, scheme: str = "http") -> str:
    """Return the address that a client on this machine uses."""
    port = listener.getsockname()[1]
    named = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    address = f"[{named}]" if ":" in named else named
    return f"{scheme}://{address}:{port}"


def _refusal(host: str, port: int, reason: OSError) -> ConfigError:
    if reason.errno == errno.EADDRINUSE:
        return ConfigError(
            f"port {port} on {host} is taken by another program; choose another with --port "
            "(0 takes a free one) or stop that program",
            param="port",
        )
    if reason.errno == errno.EACCES:
        return ConfigError(
            f"port {port} on {host} may not be opened by this user; choose one above 1023 with "
            "--port",
            param="port",
        )
    return ConfigError(
        f"host {host!r} is not an address of this machine ({reason.strerror}); --host 127.0.0.1 "
        "serves this machine only, --host 0.0.0.0 every network it is on",
        param="host",
    )
