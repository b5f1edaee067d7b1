"""Flags made from the table of settings, so that flag, variable and file key never drift apart.

`takes_settings("model", "law")` gives a verb every setting of these groups as a flag. Values are
handed on as typed: `core.config` reads and checks them, whichever layer they come from.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any, get_type_hints

from cyclopts import App, Parameter
from cyclopts import Group as Panel

from leeway.cli.call import Call
from leeway.core.config_setting import Group, Setting
from leeway.core.config_settings import SETTINGS

GLOBAL_PANEL = Panel("Global", sort_key=90)
_PANELS: dict[Group, Panel] = {
    "model": Panel("Model", sort_key=10),
    "drafting": Panel("Drafting", sort_key=20),
    "law": Panel("Acceptance law", sort_key=30),
    "sampling": Panel("Sampling", sort_key=40),
    "server": Panel("Server", sort_key=50),
    "output": GLOBAL_PANEL,
}

Verb = Callable[..., int | None]
Completer = Callable[[object], Sequence[str]]


def takes_settings(*groups: Group, only: tuple[str, ...] = ()) -> Callable[[Verb], Verb]:
    """Return a decorator that gives a verb the settings of `groups` and those named, as flags.

    The verb's first parameter is the `Call`, which then holds the flags that were typed.
    """
    names = [name for name, item in SETTINGS.items() if item.group in groups or name in only]

    def decorate(verb: Verb) -> Verb:
        hints = get_type_hints(verb, include_extras=True)
        own = list(inspect.signature(verb).parameters.values())[1:]
        own = [item.replace(annotation=hints[item.name]) for item in own]

        def run(*args: object, call: Call, **kwargs: object) -> int | None:
            flags = {name: kwargs.pop(name) for name in names if kwargs.get(name) is not None}
            mine = {key: value for key, value in kwargs.items() if key not in names}
            return verb(call.with_flags(flags), *args, **mine)

        flags = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
            for name in names
            for kind in [_annotation(SETTINGS[name])]
        ]
        context = inspect.Parameter(
            "call",
            inspect.Parameter.KEYWORD_ONLY,
            annotation=Annotated[Call, Parameter(parse=False)],
        )
        run.__name__, run.__doc__ = verb.__name__, verb.__doc__
        run.__module__, run.__annotations__ = verb.__module__, {}
        run.__signature__ = inspect.Signature([*own, *flags, context])  # type: ignore[attr-defined]
        return run

    return decorate


def group_of_verbs(name: str, meaning: str) -> App:
    """Return an application to which the verbs behind `leeway NAME` are added."""
    return App(
        name=name,
        help=meaning,
        help_format="markdown",
        help_flags=["--help", "-h"],
        version_flags=[],
    )


def switch(name: str) -> Parameter:
    """Return the flag of a setting of the output group."""
    return _parameter(SETTINGS[name])


def _annotation(setting: Setting) -> object:
    kind: Any = bool if setting.is_switch else list[str] if setting.is_list else str
    return Annotated[kind | None, _parameter(setting)]


def _parameter(setting: Setting) -> Parameter:
    return Parameter(
        name=[setting.flag, setting.short] if setting.short else [setting.flag],
        help=help_text(setting),
        group=_PANELS[setting.group],
        metavar=setting.metavar or None,
        negative="",
        show_default=False,
        allow_leading_hyphen=not setting.is_switch,
        completer=_COMPLETERS.get(setting.name, lambda _: setting.choices),
    )


def _law_names(_: object) -> list[str]:
    from leeway.acceptance.presets import PRESETS
    from leeway.acceptance.registry import law_infos

    return [*(info.name for info in law_infos()), *(preset.name for preset in PRESETS)]


def _model_names(_: object) -> list[str]:
    from leeway.models.catalogue import CATALOGUE

    return [entry.name for entry in CATALOGUE]


_COMPLETERS: dict[str, Completer] = {
    "law": _law_names,
    "allow_laws": _law_names,
    "model": _model_names,
    "draft_model": _model_names,
}
LAW_NAME = Parameter(
    help="A law or preset that `leeway laws` lists.", show_default=False, completer=_law_names
)
MODEL_NAME = Parameter(
    name="MODEL", help="Same as --model.", show_default=False, completer=_model_names
)


def help_text(setting: Setting) -> str:
    """Return what the setting means, its default and its environment variable."""
    default = "off" if setting.default is False else setting.show(setting.default)
    return f"{setting.meaning} (default {default}; env {setting.env})"
