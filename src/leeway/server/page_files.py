"""The page: files of the folder `page`, sent as they are.

In: GET / and GET /page/NAME. Out: bytes read once, with an entity tag and a policy under which a
browser runs and loads nothing that this server did not send. What the page shows it asks of the
public routes; nothing here knows the engine.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_INDEX = "index.html"
_MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file with what its responses say of it."""

    content: bytes
    media_type: str
    tag: str


@cache
def page_files() -> dict[str, PageFile]:
    """Return the folder's files by name."""
    found = {}
    for path in files("leeway.server").joinpath("page").iterdir():
        media_type = _MEDIA_TYPES.get(PurePosixPath(path.name).suffix)
        if media_type is not None:
            content = path.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            found[path.name] = PageFile(content, media_type, tag)
    return found


async def show_page(request: Request) -> Response:
    """GET /: the page."""
    return _send(request, _INDEX)


async def show_page_file(request: Request) -> Response:
    """GET /page/{name}: what the page is made of."""
    name: str = request.path_params["name"]
    if name not in page_files():
        raise HTTPException(
            404, f"the page has no file {name!r}; it has {', '.join(sorted(page_files()))}"
        )
    return _send(request, name)


def _send(request: Request, name: str) -> Response:
    """Return a file, or 304 where the browser has it already."""
    file = page_files()[name]
    headers = {
        "ETag": file.tag,
        "Cache-Control": "no-cache",
        "Content-Security-Policy": POLICY,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
    }
    known = request.headers.get("if-none-match", "").split(",")
    if file.tag in (one.strip().removeprefix("W/") for one in known):
        return Response(status_code=304, headers=headers)
    return Response(file.content, headers={**headers, "Content-Type": file.media_type})
