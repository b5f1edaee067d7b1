"""Serve a table from a process of its own: `python -m tests.server.serve_table [broken]`."""

from __future__ import annotations

import sys

from leeway.backends.tabular import random_table
from leeway.core.config import ServerConfig
from leeway.core.errors import LeewayError, ModelError
from leeway.server import run as room
from tests.support.tabular_engine import make_engine


def load_engine(config, on_progress=None):
    if sys.argv[1:] == ["broken"]:
        raise ModelError("the file is truncated at byte 7")
    return make_engine(
        random_table(5, 1, seed=1), drafter="ngram", context_len=9000, capacity_tokens=40000
    )


def main():
    room.load_engine = load_engine
    try:
        room.run(ServerConfig(port=0))
    except LeewayError as error:
        sys.exit(f"{error.exit_code}: {error}")


if __name__ == "__main__":
    main()
