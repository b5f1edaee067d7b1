"""`leeway quality plan`: how many tasks a question takes."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from leeway.cli.call import Call, Screen
from leeway.cli.options import takes_settings

if TYPE_CHECKING:
    from leeway.quality.plan import Plan

DEFINITIONS = {
    "pair": "one task and sample that both arms answered with the same seed; samples of one task "
    "count as pairs of their own only as far as they turn out independently",
    "discordance": "share of pairs at which one arm is right and the other wrong; `quality run` "
    "shows it. Shared seeds keep it small as long as arms decide alike",
    "to detect": "pairs with which McNemar's two-sided test finds a loss of the margin",
    "to rule out": "pairs with which arms that are alike are shown to lose less than the margin "
    "(one-sided)",
    "unpaired": "answers an arm that the same would take without pairs",
    "detectable": "smallest loss that a suite finds, each task asked once",
}


@takes_settings()
def plan(
    call: Call,
    *,
    margin: Annotated[float, Parameter(metavar="SHARE", help="The loss that would matter.")] = 0.03,
    accuracy: Annotated[
        float, Parameter(metavar="SHARE", help="Assumed rate of right answers of the first arm.")
    ] = 0.6,
    discordance: Annotated[
        float,
        Parameter(
            metavar="SHARE", help="Assumed share of pairs of which one arm is right, one wrong."
        ),
    ] = 0.1,
    alpha: Annotated[float, Parameter(metavar="SHARE", help="False alarms of the tests.")] = 0.05,
    power: Annotated[
        float, Parameter(metavar="SHARE", help="Chance that what is there is found.")
    ] = 0.8,
) -> None:
    """Say how many tasks it takes to see a loss, or to rule one out, and what suites can see."""
    _, screen = call.resolve()
    from leeway.quality.plan import SUITE_SIZES, Assumed, make_plan
    from leeway.quality.power import Levels

    assumed = Assumed(margin, accuracy, discordance, Levels(alpha, power))
    made = make_plan(assumed, SUITE_SIZES)
    if screen.is_json:
        screen.print_json({"definitions": DEFINITIONS, **asdict(made)})
    else:
        _print(made, screen)


def _print(made: Plan, screen: Screen) -> None:
    from leeway.cli.bench_table import print_rows
    from leeway.cli.quality_print import print_definitions
    from leeway.quality.tables import percent_text

    out, assumed = screen.out(), made.assumed
    out.print(
        f"margin {percent_text(assumed.margin)} points, accuracy {percent_text(assumed.rate)} %, "
        f"alpha {assumed.levels.alpha:g}, power {assumed.levels.power:g}; paired"
    )
    rows = [["discordance", "pairs to detect", "pairs to rule out"]]
    rows += [
        [f"{percent_text(one.discordance)} %", str(one.to_detect), str(one.to_rule_out)]
        for one in made.sizes
    ]
    print_rows(rows, out)
    out.print(f"unpaired: {made.unpaired} answers an arm")
    rows = [["suite", "tasks", "detectable, points"]]
    rows += [
        [
            one.name,
            str(one.num_tasks),
            "-" if one.detectable_loss is None else percent_text(one.detectable_loss),
        ]
        for one in made.suites
    ]
    print_rows(rows, out)
    print_definitions(DEFINITIONS, screen)
