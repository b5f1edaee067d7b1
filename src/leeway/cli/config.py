"""`leeway config show`: every setting in force, and where it came from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from leeway.cli.call import Call, Screen
from leeway.cli.options import group_of_verbs, takes_settings
from leeway.core.config import Config
from leeway.core.config_setting import Setting
from leeway.core.config_settings import SETTINGS

app = group_of_verbs("config", "What is configured, and by whom.")


@app.command
@takes_settings("model", "drafting", "law", "sampling", "server")
def show(call: Call) -> None:
    """Print every setting with its value and its origin: flag, environment, file or default.

    What other verbs would refuse before loading a model is refused here too.
    """
    config, screen = call.resolve()
    from leeway.cli.loading import check_early

    check_early(config)
    if screen.is_json:
        screen.print_json(_as_json(config))
    else:
        _print_table(config, screen)


def _as_json(config: Config) -> dict[str, Any]:
    settings = {
        name: {
            "value": _plain(SETTINGS[name], item.value),
            "layer": item.origin.layer,
            "origin": item.origin.name,
        }
        for name, item in config.values.items()
    }
    acceptance = config.engine.acceptance
    return {
        "file": None if config.file is None else str(config.file),
        "settings": settings,
        "acceptance": {"law": acceptance.law, "options": dict(acceptance.options)},
    }


def _plain(setting: Setting, value: object) -> object:
    if setting.is_secret and value is not None:
        return "(hidden)"
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Path) else value


def _print_table(config: Config, screen: Screen) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("setting", "value", "origin"):
        table.add_column(title, overflow="fold")
    for name, item in config.values.items():
        style = "" if item.is_given else "dim"
        table.add_row(name, SETTINGS[name].show(item.value), item.origin.name, style=style)
    out = screen.out()
    out.print(table)
    acceptance = config.engine.acceptance
    options = ", ".join(f"{key}={value}" for key, value in acceptance.options.items())
    out.print()
    out.print(f"law in force: {acceptance.law}{f' ({options})' if options else ''}")
    out.print(f"file read: {config.file or 'none'}")
