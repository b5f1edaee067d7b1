"""`leeway serve` for a soak: `python -m tests.server.soak_server {model|table} [FLAG ...]`.

Everything is the real thing, but that `table` puts a table in the model's place. When the server
has drained, the cache's books are checked and one line of JSON says what is missing in them.
"""

from __future__ import annotations

import json
import sys

from leeway.backends.tabular import random_table
from leeway.cli.main import main as leeway
from leeway.engine.engine import Engine
from leeway.server import run as room
from tests.support.loaded_engine import caches_of
from tests.support.tabular_engine import make_engine


def table_engine() -> Engine:
    """Return an engine over a table, with a cache that is too small for eight long answers."""
    return make_engine(
        random_table(5, 2, seed=1, concentration=0.5),
        order=2,
        drafter="ngram",
        eos_token_id=4,
        context_len=400,
        capacity_tokens=640,
    )


def books(engine: Engine) -> list[dict[str, int]]:
    """Return blocks, and blocks that nobody gave back, of the target's and the drafter's cache."""
    assert not engine.has_work
    found = []
    for cache in caches_of(engine):
        cache.check_integrity()
        pool = cache.pool if hasattr(cache, "pool") else cache._model.pool
        found.append({"blocks": pool.num_blocks, "lost": pool.num_blocks - pool.num_free_blocks})
    return found


def main() -> int:
    """Serve until told to stop; return the exit code."""
    kind, *flags = sys.argv[1:]
    kept: list[Engine] = []
    load = room.load_engine

    def keep(config, on_progress=None):
        kept.append(table_engine() if kind == "table" else load(config, on_progress))
        return kept[0]

    room.load_engine = keep
    code = leeway(["serve", *flags])
    if code == 0:
        sys.stdout.write(json.dumps(books(kept[0])) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
