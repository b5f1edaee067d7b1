"""`leeway bench rivals`: engines that a run can start beside this one, and why one cannot."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from leeway.cli.call import Call
from leeway.cli.options import takes_settings

_PYTHON = Parameter(
    metavar="PATH",
    show_default=False,
    help="Interpreter of the environment that rivals are installed in; this program's own without "
    "it.",
)


@takes_settings()
def rivals(call: Call, *, python: Annotated[str | None, _PYTHON] = None) -> None:
    """List the rivals that `leeway bench run --arm rival:RECIPE` can start, and why one cannot."""
    _, screen = call.resolve()
    from leeway.bench.rivals import RECIPES, presence

    found = {name: presence(recipe, python or sys.executable) for name, recipe in RECIPES.items()}
    if screen.is_json:
        screen.print_json(
            [
                {
                    "name": name,
                    "package": RECIPES[name].package,
                    "version": one.version,
                    "can_run": one.reason is None,
                    "reason": one.reason,
                    "speculation": list(RECIPES[name].speculation),
                }
                for name, one in found.items()
            ]
        )
        return
    for name, one in found.items():
        if one.reason is None:
            kinds = ", ".join(RECIPES[name].speculation)
            print(f"{name}: {RECIPES[name].package} {one.version}; speculation: {kinds}")
        else:
            print(f"{name}: cannot run: {one.reason}")
