"""`leeway bench compare`: two runs that lie in folders, request by request."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from leeway.cli.call import Call, Screen
from leeway.cli.options import takes_settings
from leeway.core.errors import ConfigError

if TYPE_CHECKING:
    from leeway.bench.compare_runs import ArmPair

_RUN = "A folder that --out filled, or the summary.json in it."
_LONGEST = 48


@takes_settings()
def compare(
    call: Call,
    a: Annotated[Path, Parameter(name="A", help=_RUN)],
    b: Annotated[Path, Parameter(name="B", help=_RUN)],
    /,
    *,
    arm_a: Annotated[
        str | None,
        Parameter(metavar="NAME", show_default=False, help="The arm of A; all that both have."),
    ] = None,
    arm_b: Annotated[
        str | None,
        Parameter(metavar="NAME", show_default=False, help="The arm of B; the one named of A."),
    ] = None,
) -> None:
    """Compare two runs over the requests that both ran, and say in what the runs differ.

    Pairs requests by digest (prompt, sampling parameters, seed). Runs that asked different things
    are refused.
    """
    _, screen = call.resolve()
    from leeway.bench.compare_runs import DEFINITIONS, choose_arms, compare_arms, differing
    from leeway.bench.runs import read_run

    first, second = (read_run(_folder(path)) for path in (a, b))
    chosen = choose_arms(first, second, arm_a, arm_b)
    pairs = [compare_arms(first, second, names) for names in chosen]
    found = differing(first, second)
    if screen.is_json:
        screen.print_json(
            {
                "definitions": DEFINITIONS,
                "a": str(a),
                "b": str(b),
                "differences": [{"name": name, "a": old, "b": new} for name, old, new in found],
                "arms": [asdict(pair) for pair in pairs],
            }
        )
        return
    _print(pairs, found, screen)
    if not screen.is_quiet:
        for name, meaning in DEFINITIONS.items():
            screen.out().print(f"{name}: {meaning}", style="dim")


def _folder(path: Path) -> Path:
    """Return the folder of windows that a path names.

    Raises:
        ConfigError: it is neither a folder nor a summary beside windows.
    """
    from leeway.bench.ladder import has_rungs

    if path.is_dir() and has_rungs(path):
        raise ConfigError(f"{str(path)!r} holds a ladder; name one of the folders in it")
    if path.is_dir():
        return path
    if path.is_file() and path.suffix == ".json" and any(path.parent.glob("*.window.json")):
        return path.parent
    raise ConfigError(
        f"{str(path)!r} is no folder of windows and no summary that lies in one; name a folder "
        "that --out filled: a summary alone does not hold the requests that are paired"
    )


def _print(pairs: list[ArmPair], found: list[tuple[str, Any, Any]], screen: Screen) -> None:
    from leeway.bench.compare_runs import comparison_rows
    from leeway.cli.bench_table import print_rows

    out = screen.out()
    for pair in pairs:
        print_rows(comparison_rows(pair), out)
        left = f"; {pair.num_left_out} without a partner" if pair.num_left_out else ""
        out.print(
            f"{pair.num_requests} requests, {pair.num_windows} windows of each{left}; intervals "
            f"over {pair.clusters}; same answers to {pair.num_same_answers} requests"
        )
        if pair.void:
            out.print(f"! void: {pair.void}", style="yellow")
    out.print("The runs differ in:" if found else "The runs have one identity.")
    for name, old, new in found:
        out.print(f"  {name}: {_short(old)} -> {_short(new)}")


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
