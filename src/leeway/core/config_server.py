"""Configuration: the settings of the server, and which of them go together only."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from leeway.core import config_values as read
from leeway.core.config_setting import Setting
from leeway.core.errors import ConfigError

if TYPE_CHECKING:
    from leeway.core.config_acceptance import Value

LOG_FORMATS = ("text", "json")
MAX_BODY_BYTES = 8 * 2**20
ANY_ORIGIN = "*"
ANY_HOST = "*"
_HOST_NAME = re.compile(r"(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/?#@,]+")
_OWN_PORTS = {"http": ":80", "https": ":443"}
_NOTHING = (("none",), ("off",))


def _origins(raw: object) -> tuple[str, ...]:
    """Read origins as browsers send them: in small letters, without the scheme's own port."""
    found = tuple(one.lower() for one in read.words(raw))
    if found in _NOTHING:
        return ()
    for one in found:
        if one != ANY_ORIGIN and not _ORIGIN.fullmatch(one):
            raise ValueError(
                f"holds {one!r}, which is no origin; write scheme, host and port and nothing "
                "behind them, like https://app.example.org or http://localhost:3000, or * for all"
            )
    return tuple(one.removesuffix(_OWN_PORTS.get(one.partition(":")[0], "")) for one in found)


def _hosts(raw: object) -> tuple[str, ...] | None:
    """Read names as a Host header has them, in small letters, without port or brackets."""
    found = tuple(one.lower().removeprefix("[").removesuffix("]") for one in read.words(raw))
    if found in _NOTHING:
        return None
    for one in found:
        if one != ANY_HOST and not _HOST_NAME.fullmatch(one) and not _is_address(one):
            raise ValueError(
                f"holds {one!r}, which is no name of a host; write it without scheme and port, "
                "like llm.example.org, *.example.org for all below it, 192.168.1.5, or * for any"
            )
    return found


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


SERVER_SETTINGS = (
    Setting("host", "server", "Address to listen on.", read.text, "127.0.0.1", metavar="ADDRESS"),
    Setting(
        "port",
        "server",
        "Port to listen on; 0 takes a free one.",
        read.integer(0, 65535),
        8000,
        metavar="N",
    ),
    Setting(
        "tls_cert",
        "server",
        "Certificate chain (PEM) to serve HTTPS with; goes with --tls-key.",
        read.optional(read.path),
        unset="none, plain HTTP",
        metavar="PATH",
    ),
    Setting(
        "tls_key",
        "server",
        "Private key (PEM) of the certificate, without a passphrase.",
        read.optional(read.path),
        metavar="PATH",
    ),
    Setting(
        "allowed_hosts",
        "server",
        "Host name that the server answers to besides local ones, like llm.example.org; may be "
        "repeated; * is any.",
        _hosts,
        unset="local names where --host is local, else any",
        is_list=True,
        metavar="NAME",
    ),
    Setting(
        "allow_origin",
        "server",
        "Origin whose web pages may use the API, like https://app.example.org; may be repeated; * "
        "is every one.",
        _origins,
        (),
        unset="none",
        is_list=True,
        metavar="ORIGIN",
    ),
    Setting(
        "api_key",
        "server",
        "Key that requests must carry as a bearer token.",
        read.optional(read.text),
        unset="none asked for",
        is_secret=True,
        metavar="KEY",
    ),
    Setting(
        "api_key_file",
        "server",
        "File of keys, one a line, of which requests must carry one; --api-key is one more.",
        read.optional(read.path),
        metavar="PATH",
    ),
    Setting(
        "allow_laws",
        "server",
        "Laws that a request may choose: names with commas between, or all.",
        read.optional(read.words),
        unset="exact ones and the server's own",
        metavar="NAMES",
    ),
    Setting(
        "max_num_waiting",
        "server",
        "Requests that may wait for a place; further ones are refused with 429.",
        read.integer(0, 65536),
        256,
        metavar="N",
    ),
    Setting(
        "max_body_bytes",
        "server",
        "Largest request, like 8MiB; larger ones are refused with 413.",
        read.size_bytes,
        MAX_BODY_BYTES,
        metavar="SIZE",
    ),
    Setting(
        "request_timeout_s",
        "server",
        "Longest time for an answer, waiting included; then it ends with an error; 0 is off.",
        read.zero_or(0.01, 86_400),
        0.0,
        metavar="SECONDS",
    ),
    Setting(
        "drain_timeout_s",
        "server",
        "Longest time that a server told to stop lets answers finish; 0 cancels them at once.",
        read.zero_or(0.01, 86_400),
        30.0,
        metavar="SECONDS",
    ),
    Setting(
        "log_format",
        "server",
        "text: log lines for people; json: one JSON object a line.",
        read.choice(*LOG_FORMATS),
        "text",
        metavar="NAME",
        choices=LOG_FORMATS,
    ),
)


def check_server(values: Mapping[str, Value]) -> None:
    """Refuse a certificate without its key, and a key without its certificate.

    Raises:
        ConfigError: names the one that is given, its origin and the flag of the other.
    """
    for name, other in (("tls_cert", "--tls-key"), ("tls_key", "--tls-cert")):
        given = values[name]
        missing = values["tls_key" if name == "tls_cert" else "tls_cert"]
        if given.value is not None and missing.value is None:
            raise ConfigError(
                f"{name} {str(given.value)!r} (from {given.origin}) does nothing alone; give "
                f"{other} as well, or neither",
                param=name,
            )
