"""Cross-origin requests: which web pages of other origins may use the API from a browser.

By default none is told anything. Credentials that a browser adds by itself, such as cookies, are
never allowed: the server has none, and a key is sent by the page that knows it.
"""

from __future__ import annotations

from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

from leeway.core.config import ServerConfig

SHOWN_HEADERS = (
    "X-Request-Id",
    "Request-Id",
    "Retry-After",
    "X-Leeway-Law",
    "X-Leeway-Guarantee",
    "X-Leeway-Drafter",
    "X-Leeway-Seed",
)
"""Headers of answers that a page may read, beside those that any may."""


def cross_origin(config: ServerConfig) -> list[Middleware]:
    """Return what answers preflights and names the origin in answers; nothing by default."""
    if not config.allow_origin:
        return []
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=config.allow_origin,
            allow_methods=("GET", "POST"),
            allow_headers=("*",),  # clients send many of their own
            allow_credentials=False,
            allow_private_network=True,  # its operator has named the origin
            expose_headers=SHOWN_HEADERS,
        )
    ]
