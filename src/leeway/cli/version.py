"""`leeway version`: which Leeway, on what."""

from __future__ import annotations

import platform
from importlib import metadata

from leeway.cli.call import Call
from leeway.cli.options import takes_settings

_PARTS = ("openvino", "numpy", "tokenizers")


@takes_settings()
def version(call: Call) -> None:
    """Print the version of Leeway and of what it runs on."""
    _, screen = call.resolve()
    parts = {"leeway": metadata.version("leeway-llm"), "python": platform.python_version()}
    parts |= {name: metadata.version(name) for name in _PARTS}
    if screen.is_json:
        screen.print_json(parts)
        return
    rest = ", ".join(f"{name} {number}" for name, number in parts.items() if name != "leeway")
    screen.out().print(f"leeway {parts['leeway']} ({rest})")
