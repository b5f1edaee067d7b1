"""`leeway explain LAW`: rule, formula, and what it does to one pair of rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from cyclopts import Parameter

from leeway.cli.call import Call, Screen
from leeway.cli.laws import describe_knob
from leeway.cli.options import LAW_NAME, takes_settings
from leeway.core.config_values import law_options
from leeway.core.errors import LawError
from leeway.core.limits import Limits
from leeway.core.receipt import LawOption
from leeway.core.types import Acceptance

EXAMPLE_OPTIONS: Mapping[str, Mapping[str, LawOption]] = {
    "typical": {"delta": 0.7},
    "tokenv1": {"alpha": 0.2},
    "tokenv2": {"alpha": 0.2},
    "tokenv3": {"alpha": 0.5},
    "opt": {"alpha": 0.5},
    "diff": {"alpha": 0.2},
    "relaxed_top_k": {"rank": 2, "delta": 0.3},
    "threshold": {"floor": 0.3},
    "lenient": {"leniency": 0.5},
    "clip": {"c1": 1.5},
    "tv_budget": {"budget": 0.1},
    "ensemble": {"weight": 0.5},
}
_ROWS_METAVAR = "P,P,…"


@takes_settings(only=("hard_support",))
def explain(
    call: Call,
    law: Annotated[str, LAW_NAME],
    /,
    *,
    law_option: Annotated[
        list[str] | None,
        Parameter(
            metavar="KEY=VALUE",
            negative="",
            help="Option of the law; may be repeated. Without any, example values are used.",
        ),
    ] = None,
    target_probs: Annotated[
        str | None, Parameter(metavar=_ROWS_METAVAR, help="The target's row p, like 0.5,0.3,0.2.")
    ] = None,
    draft_probs: Annotated[
        str | None, Parameter(metavar=_ROWS_METAVAR, help="The draft's row q, like 0.2,0.3,0.5.")
    ] = None,
) -> None:
    """Explain a law: rule, formula, guarantee, and its arithmetic on a pair of rows.

    For each token: whether it is kept without a coin, the probability to accept it, the row drawn
    from on rejection, and the row that is emitted in the end.
    """
    config, screen = call.resolve()
    from leeway.acceptance.explain import explain as explain_law
    from leeway.acceptance.limits import limit_law
    from leeway.acceptance.registry import build_law

    options = _read_options(law_option)
    is_example = not options and law in EXAMPLE_OPTIONS
    if is_example:
        options = dict(EXAMPLE_OPTIONS[law])
    is_hard = config.engine.limits.hard_support
    built = limit_law(build_law(Acceptance(law, options)), Limits(hard_support=is_hard))
    facts = explain_law(built, _row(target_probs, "target_probs"), _row(draft_probs, "draft_probs"))
    facts |= {"options_are_an_example": is_example, "hard_support": is_hard}
    if screen.is_json:
        screen.print_json(facts)
        return
    knobs = [describe_knob(knob) for knob in built.info.knobs]
    _print(screen, facts, knobs)


def _read_options(given: list[str] | None) -> dict[str, LawOption]:
    try:
        return law_options(given or [])
    except ValueError as reason:
        raise LawError(f"law option {', '.join(given or [])!r} {reason}") from None


def _row(given: str | None, name: str) -> list[float] | None:
    if given is None:
        return None
    try:
        return [float(part) for part in given.split(",")]
    except ValueError:
        flag = "--" + name.replace("_", "-")
        raise LawError(
            f"{flag} {given!r} is not a row of numbers; write it like 0.5,0.3,0.2", param=name
        ) from None


def _print(screen: Screen, facts: dict[str, Any], knobs: list[str]) -> None:
    from rich.table import Table

    out = screen.out()
    options = ", ".join(f"{key}={value}" for key, value in facts["options"].items())
    out.print(f"{facts['law']}: {facts['rule']}", style="bold")
    about = Table(box=None, show_header=False, pad_edge=False)
    about.add_column(no_wrap=True)
    about.add_column()
    about.add_row("formula", facts["formula"])
    about.add_row("guarantee", facts["guarantee"])
    about.add_row("temperature 0", facts["temperature_zero"])
    about.add_row("source", facts["source"])
    if knobs:
        about.add_row("options", "\n".join(knobs))
    example = " (an example)" if facts["options_are_an_example"] else ""
    about.add_row("here", (options or "no options") + example)
    if facts["hard_support"]:
        about.add_row("limit", "hard support: no token that the target gives nothing")
    out.print(about)
    out.print()
    out.print(_row_table(facts))
    out.print()
    rates = Table(box=None, show_header=False, pad_edge=False)
    kl = facts["kl_divergence"]
    rates.add_row("acceptance rate", f"{facts['acceptance_rate']:.6g}")
    rates.add_row("total variation of emitted from target", f"{facts['total_variation']:.6g}")
    rates.add_row("KL of emitted from target", "infinite" if kl is None else f"{kl:.6g} nats")
    rates.add_row("total variation of draft from target (D)", f"{facts['draft_tv']:.6g}")
    out.print(rates)


def _row_table(facts: dict[str, Any]) -> Any:  # noqa: ANN401  (rich is imported late)
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    titles = ("token", "target p", "draft q", "kept", "accept", "recovered", "emitted")
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    for token, kept in enumerate(facts["is_kept"]):
        columns = ("target", "draft", "accept", "recovered", "emitted")
        p, q, *rest = (f"{facts[f'{name}_probs'][token]:.6g}" for name in columns)
        table.add_row(str(token), p, q, "yes" if kept else "no", *rest)
    return table
