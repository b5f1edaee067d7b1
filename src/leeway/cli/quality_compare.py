"""`leeway quality compare`: arms in pairs, of one run or of two."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from leeway.cli.call import Call, Screen
from leeway.cli.options import takes_settings
from leeway.cli.quality_options import FOLDER, MARGIN

if TYPE_CHECKING:
    from leeway.quality.compare_runs import Compared

_LONGEST = 48


@takes_settings()
def compare(
    call: Call,
    a: Annotated[Path, Parameter(name="A", help=FOLDER)],
    b: Annotated[
        Path | None, Parameter(name="B", show_default=False, help="Another one; A itself without.")
    ] = None,
    /,
    *,
    arm_a: Annotated[
        str | None,
        Parameter(
            metavar="NAME", show_default=False, help="The arm of A; its first one without a name."
        ),
    ] = None,
    arm_b: Annotated[
        str | None,
        Parameter(
            metavar="NAME", show_default=False, help="The arm of B; every other one without a name."
        ),
    ] = None,
    margin: Annotated[float, MARGIN] = 0.03,
) -> None:
    """Compare arms task by task and sample by sample, and say what the comparison could see.

    Of two folders, the same tasks and seeds are paired, and what the runs differ in is named.
    """
    _, screen = call.resolve()
    from leeway.quality.compare_runs import compare_folders

    found = compare_folders(a, b, arm_a=arm_a, arm_b=arm_b, margin=margin)
    if screen.is_json:
        from leeway.quality.scores import pair_json
        from leeway.quality.summary import DEFINITIONS

        screen.print_json(
            {
                "definitions": DEFINITIONS,
                "a": str(a),
                "b": str(b or a),
                "differences": [
                    {"name": name, "a": old, "b": new} for name, old, new in found.differences
                ],
                "comparisons": [pair_json(pair) for pair in found.pairs],
            }
        )
    else:
        _print(found, screen, has_two=b is not None)


def _print(found: Compared, screen: Screen, *, has_two: bool) -> None:
    from leeway.cli.bench_table import print_rows
    from leeway.cli.quality_print import print_definitions
    from leeway.quality.summary import DEFINITIONS
    from leeway.quality.tables import pair_rows, verdict_text

    out = screen.out()
    print_rows(pair_rows(found.pairs), out)
    for pair in found.pairs:
        out.print(f"{verdict_text(pair)}.")
    if has_two:
        out.print("The runs differ in:" if found.differences else "The runs have one identity.")
        for name, old, new in found.differences:
            out.print(f"  {name}: {_short(old)} -> {_short(new)}")
    words = (
        "strict",
        "lost",
        "fewer / more",
        "McNemar p",
        "detectable",
        "margin p",
        "same",
    )
    print_definitions({name: DEFINITIONS[name] for name in words}, screen)


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
