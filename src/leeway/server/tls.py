"""TLS: certificate and key are read before anything slow is begun; uvicorn serves them.

In: the two files that the configuration names. Out: nothing, or one error that says which file is
wrong and how.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import NoReturn

from leeway.core.config import ServerConfig
from leeway.core.errors import ConfigError

_OF_ANOTHER = "KEY_VALUES_MISMATCH"


def check_tls(config: ServerConfig) -> None:
    """See that HTTPS can be served with what is configured, if anything is.

    Raises:
        ConfigError: a file cannot be read or is not what it should be; names it and its origin.
    """
    cert, key = config.tls_cert, config.tls_key
    assert (cert is None) == (key is None)
    if cert is None or key is None:
        return
    _check_readable(config, "tls_cert", cert)
    _check_readable(config, "tls_key", key)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, _ask_passphrase)
    except _PassphraseAskedError:
        _refuse(
            config,
            "tls_key",
            "is locked by a passphrase; write it without one (openssl pkey) and let only the "
            "server's user read it",
        )
    except ssl.SSLError as reason:
        if not _has_certificate(cert):
            _refuse(config, "tls_cert", "holds no certificate in PEM form")
        if reason.reason == _OF_ANOTHER:
            _refuse(config, "tls_key", f"is not the key of the certificate in {cert}")
        _refuse(config, "tls_key", "holds no private key in PEM form")


class _PassphraseAskedError(Exception):
    """The key is encrypted; a server that starts by itself has nobody to ask."""


def _ask_passphrase() -> str:
    raise _PassphraseAskedError


def _check_readable(config: ServerConfig, name: str, path: Path) -> None:
    try:
        path.read_bytes()
    except OSError as reason:
        _refuse(config, name, f"cannot be read: {reason.strerror}")


def _has_certificate(path: Path) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(path)
    except ssl.SSLError:
        return False
    return True


def _refuse(config: ServerConfig, name: str, complaint: str) -> NoReturn:
    path = config.tls_cert if name == "tls_cert" else config.tls_key
    raise ConfigError(
        f"{name} {str(path)!r} (from {config.origin(name)}) {complaint}", param=name
    ) from None
