"""`leeway laws`: every acceptance law, what it promises and what can be turned."""

from __future__ import annotations

import math
from collections.abc import Sequence

from leeway.acceptance.base import Knob, LawInfo
from leeway.cli.call import Call, Screen
from leeway.cli.options import takes_settings

_TABLE_WIDTH = 110


@takes_settings()
def laws(call: Call) -> None:
    """List the acceptance laws: guarantee, options with range and exact end, source; and presets.

    A law with a guarantee changes nothing about the output. Of every other law the receipt says
    what it changed.
    """
    _, screen = call.resolve()
    from leeway.acceptance.registry import law_infos

    if screen.is_json:
        from leeway.acceptance.listing import law_listing

        screen.print_json(law_listing())
        return
    out = screen.out()
    if out.width >= _TABLE_WIDTH:
        _print_table(screen, law_infos())
    else:
        _print_blocks(screen, law_infos())
    _print_words(screen, law_infos())
    _print_presets(screen)
    _print_limits(screen)


def describe_knob(knob: Knob) -> str:
    """Return an option's name, range, default and exact end in one line."""
    text = f"{knob.name} {_describe_range(knob)}"
    if knob.default is not None:
        text += f" = {knob.default}"
    elif not knob.is_required:
        text += ", optional"
    return f"{text} (exact end: {knob.exact_end})" if knob.exact_end else text


def describe_knobs(knobs: Sequence[Knob]) -> list[str]:
    """Return one line a number, and one for all words with their defaults."""
    lines = [describe_knob(knob) for knob in knobs if not knob.choices]
    words = [f"{knob.name}={knob.default}" for knob in knobs if knob.choices]
    return [*lines, *([" ".join(words)] if words else [])]


def _describe_range(knob: Knob) -> str:
    if knob.choices:
        return "|".join(knob.choices)
    has_low, has_high = math.isfinite(knob.low), math.isfinite(knob.high)
    if has_low and has_high:
        return f"in {'(' if knob.low_open else '['}{knob.low:g}, {knob.high:g}]"
    if has_low:
        return f"{'>' if knob.low_open else '>='} {knob.low:g}"
    return "any number"


def _print_table(screen: Screen, infos: tuple[LawInfo, ...]) -> None:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, leading=1, pad_edge=False, header_style="bold")
    table.add_column("law", no_wrap=True)
    table.add_column("guarantee", no_wrap=True)
    table.add_column("options: range = default (exact end)", ratio=4)
    table.add_column("needs\ndraft rows", no_wrap=True)
    table.add_column("may leave\nsupport", no_wrap=True)
    table.add_column("source", ratio=3, overflow="fold")
    for info in infos:
        table.add_row(
            info.name,
            str(info.guarantee),
            "\n".join(describe_knobs(info.knobs)) or "none",
            _yes_no(info.needs_draft_rows),
            _yes_no(info.may_leave_support),
            info.source,
        )
    screen.out().print(table)


def _print_blocks(screen: Screen, infos: tuple[LawInfo, ...]) -> None:
    """Print one block a law, for narrow terminals."""
    from rich.padding import Padding

    out = screen.out()
    for info in infos:
        out.print(f"{info.name}  (guarantee {info.guarantee})", style="bold")
        lines = [info.summary, *describe_knobs(info.knobs)]
        lines.append(
            f"needs draft rows: {_yes_no(info.needs_draft_rows)}; "
            f"may leave support: {_yes_no(info.may_leave_support)}"
        )
        lines.append(f"source: {info.source}")
        for line in lines:
            out.print(Padding(line, (0, 0, 0, 4)))


def _print_words(screen: Screen, infos: tuple[LawInfo, ...]) -> None:
    """Print the options that are words, once for all laws that have them."""
    from rich.table import Table

    words = {knob.name: knob for info in infos for knob in info.knobs if knob.choices}
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("option", "values", "meaning"):
        table.add_column(title, no_wrap=title != "meaning")
    for knob in words.values():
        table.add_row(knob.name, "|".join(knob.choices), knob.meaning)
    out = screen.out()
    out.print()
    out.print(table)


def _print_presets(screen: Screen) -> None:
    from rich.table import Table

    from leeway.acceptance.presets import PRESETS

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("preset", "is", "as in"):
        table.add_column(title, no_wrap=title == "preset")
    for preset in PRESETS:
        options = ", ".join(f"{key}={value}" for key, value in preset.options.items())
        table.add_row(preset.name, f"{preset.law} with {options}", preset.source)
    out = screen.out()
    out.print()
    out.print(table)


def _print_limits(screen: Screen) -> None:
    from rich.table import Table

    from leeway.core.config_limits import LIMIT_SETTINGS

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("limit on any law", no_wrap=True)
    table.add_column("meaning")
    for setting in LIMIT_SETTINGS:
        table.add_row(setting.flag, setting.meaning)
    out = screen.out()
    out.print()
    out.print(table)
    if not screen.is_quiet:
        out.print()
        out.print("Choose one with --law NAME --law-option key=value; `leeway explain NAME` shows")
        out.print("its rule, its formula and its arithmetic.")


def _yes_no(is_so: bool) -> str:
    return "yes" if is_so else "no"
