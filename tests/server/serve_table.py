"""Serve a table from a process of its own: `python -m tests.server.serve_table [NAME=VALUE ...]`.

Settings are the server's own, such as `log_format=json`; `broken` in their place serves a model
that cannot be loaded.
"""

from __future__ import annotations

import sys
from pathlib import Path

from leeway.backends.tabular import random_table
from leeway.core.config import resolve
from leeway.core.errors import LeewayError, ModelError
from leeway.server import run as room
from tests.support.tabular_engine import make_engine

_HERE = Path(__file__).parent
_NO_FILES = {"XDG_CONFIG_HOME": str(_HERE)}


def load_engine(config, on_progress=None):
    if sys.argv[1:] == ["broken"]:
        raise ModelError("the file is truncated at byte 7")
    return make_engine(
        random_table(5, 1, seed=1), drafter="ngram", context_len=9000, capacity_tokens=40000
    )


def main():
    room.load_engine = load_engine
    settings = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
    try:
        room.run(resolve({"port": "0", **settings}, environ=_NO_FILES, cwd=_HERE).server)
    except LeewayError as error:
        sys.exit(f"{error.exit_code}: {error}")


if __name__ == "__main__":
    main()
