"""The API keys: every route that reads text asks for one where any is configured.

OpenAI's clients send it as `Authorization: Bearer KEY`, Anthropic's as `x-api-key: KEY`.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from pathlib import Path

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from leeway.core.config import ServerConfig
from leeway.core.errors import ConfigError
from leeway.server.errors import error_response

ASKED = ("/v1/", "/tokenize", "/detokenize")
_COMMENT = "#"


def accepted_keys(config: ServerConfig) -> tuple[str, ...]:
    """Return the keys of which a request must carry one; none where none is asked for.

    Raises:
        ConfigError: the file of keys cannot be read, or holds none.
    """
    own = () if config.api_key is None else (config.api_key,)
    path = config.api_key_file
    if path is None:
        return own
    try:
        return (*own, *_keys_in(path))
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
    except ValueError as error:
        reason = str(error)
    raise ConfigError(
        f"api_key_file {str(path)!r} (from {config.origin('api_key_file')}) {reason}",
        param="api_key_file",
    )


def _keys_in(path: Path) -> list[str]:
    """Return a file's keys; raises OSError, or ValueError with the rest of a sentence."""
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except UnicodeDecodeError:
        raise ValueError("is no text in UTF-8; write one key a line") from None
    keys = [line for line in lines if line and not line.startswith(_COMMENT)]
    if not keys:
        raise ValueError("holds no key; write one a line, or drop it")
    return keys


class ApiKeyMiddleware:
    """Refuses requests that carry none of the keys (compared in constant time)."""

    def __init__(self, app: ASGIApp, keys: Sequence[str]) -> None:
        self._app = app
        self._digests = [_digest(key.encode()) for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 401."""
        if not self._digests or not scope.get("path", "").startswith(ASKED):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        kind, _, bearer = headers.get("Authorization", "").partition(" ")
        given = [headers.get("X-Api-Key", ""), bearer if kind.lower() == "bearer" else ""]
        matches = [self._is_key(one) for one in given]
        if any(matches):
            await self._app(scope, receive, send)
            return
        error = HTTPException(
            401, "this server asks for its API key; send Authorization: Bearer KEY or x-api-key"
        )
        await error_response(scope, error, {"WWW-Authenticate": "Bearer"})(scope, receive, send)

    def _is_key(self, given: str) -> bool:
        """Compare digests, and with every key, so that no length and no place shows in the time."""
        digest = _digest(given.encode("latin-1"))
        matches = [hmac.compare_digest(digest, one) for one in self._digests]
        return any(matches)


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
