"""Request bodies: bytes to a JSON object, with a limit on size and errors that name the place."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request

from leeway.core.errors import RequestError


async def read_json_object(request: Request, max_bytes: int) -> dict[str, Any]:
    """Return the request's JSON object.

    The media type must be JSON: a web page of another origin cannot send that without asking.

    Raises:
        HTTPException: 413 or 415.
        RequestError: the body is not one JSON object.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise HTTPException(
            415, f"Content-Type is {media_type!r}; send JSON with Content-Type: application/json"
        )
    raw = await _read(request, max_bytes)
    try:
        content = msgspec.json.decode(raw)
    except msgspec.ValidationError as reason:
        raise RequestError(f"the body is not JSON: {reason}") from None
    except msgspec.DecodeError as reason:
        place = "" if "(byte" in str(reason) else f" (after byte {len(raw)})"
        raise RequestError(f"the body is not JSON: {reason}{place}") from None
    except RecursionError:
        raise RequestError("the body is not JSON that can be read: nested too deeply") from None
    if not isinstance(content, dict):
        kind = type(content).__name__
        raise RequestError(f"the body is a JSON {kind}; send one object of named fields")
    return content


async def _read(request: Request, max_bytes: int) -> bytes:
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > max_bytes:
        _refuse_size(max_bytes)
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > max_bytes:
            _refuse_size(max_bytes)
    return bytes(raw)


def _refuse_size(max_bytes: int) -> None:
    raise HTTPException(
        413,
        f"the body is larger than {max_bytes} bytes; shorten the prompt, or start the server with "
        "a larger --max-body-bytes",
        {"Connection": "close"},
    )
