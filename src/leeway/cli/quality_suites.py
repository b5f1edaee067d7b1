"""`leeway quality suites`: what can be asked."""

from __future__ import annotations

from leeway.cli.call import Call
from leeway.cli.options import takes_settings


@takes_settings()
def suites(call: Call) -> None:
    """List suites: their tasks, licence and home, and whether scoring runs programs."""
    _, screen = call.resolve()
    from leeway.cli.bench_table import print_rows
    from leeway.cli.quality_print import print_definitions
    from leeway.quality.plan import SUITE_SIZES
    from leeway.quality.suites.registry import suite, suite_names

    listed = [suite(name) for name in suite_names()]
    if screen.is_json:
        screen.print_json(
            {
                "suites": [
                    {
                        "name": one.name,
                        "num_tasks": SUITE_SIZES[one.name],
                        "licence": one.licence,
                        "source": one.source,
                        "needs_sandbox": one.needs_sandbox,
                        "parts": dict(one.parts),
                    }
                    for one in listed
                ]
            }
        )
        return
    rows = [["suite", "tasks", "licence", "runs programs"]]
    rows += [
        [one.name, str(SUITE_SIZES[one.name]), one.licence, "yes" if one.needs_sandbox else "no"]
        for one in listed
    ]
    print_rows(rows, screen.out())
    parts = {f"{one.name} {name}": meaning for one in listed for name, meaning in one.parts.items()}
    print_definitions({**{one.name: one.source for one in listed}, **parts}, screen)
