"""Long texts where none are given: the source of this program, one text a room.

Real code and prose, the same for everyone with the same version, and some hundred thousand tokens.
"""

from __future__ import annotations

from pathlib import Path

import leeway
from leeway.bench.workload import Source

_ROOMS = ("engine", "acceptance", "models", "core", "drafters", "sampling", "scheduler", "text")


def own_texts(package: Path | None = None) -> list[Source]:
    """Return one raw text a room, its files in order of their names."""
    root = Path(leeway.__file__).parent if package is None else package
    found = []
    for room in _ROOMS:
        texts = [path.read_text("utf-8") for path in sorted((root / room).glob("*.py"))]
        if texts:
            found.append(Source(f"source-{room}", "\n\n".join(texts)))
    return found
