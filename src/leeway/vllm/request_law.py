"""What a request asks for: its own law and knobs, up to the ceiling.

    "vllm_xargs": {"leeway_law": "typical", "leeway_delta": 0.3}

In: the request's extra arguments. Out: a law, or None for the server's own. Naming no law, or the
server's own, starts from the options in force; another law, or a preset, starts from its own.
Arguments without our prefix are others' business.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from leeway.acceptance.base import Law
from leeway.core.errors import LawError, did_you_mean
from leeway.core.receipt import LawOption
from leeway.core.types import Acceptance
from leeway.vllm.settings import LAW_PARAM, PluginSettings

PREFIX = "leeway_"


def read_request(extra: Mapping[str, object] | None, settings: PluginSettings) -> Law | None:
    """Return the law that the request asks for, or None where it asks for nothing.

    Raises:
        LawError: an unknown law, option or value, or a law that needs draft rows.
        LawNotAllowedError: the law is above the ceiling.
    """
    given = {
        name.removeprefix(PREFIX): value
        for name, value in (extra or {}).items()
        if name.startswith(PREFIX) and value is not None
    }
    if not given:
        return None
    own = settings.law
    name = given.pop("law", own.info.name)
    if not isinstance(name, str):
        raise LawError(f"{LAW_PARAM} is {name!r}; allowed: the name of a law", param=LAW_PARAM)
    info = settings.ceiling.check(name)
    knobs = [knob.name for knob in info.knobs]
    options: dict[str, LawOption] = {}
    for key, value in given.items():
        if key not in knobs:
            known = [LAW_PARAM, *(PREFIX + knob for knob in knobs)]
            raise LawError(
                f"unknown argument {PREFIX + key!r}{did_you_mean(PREFIX + key, known)}; law "
                f"{info.name!r} takes {', '.join(known[1:]) or 'no options'}",
                param=PREFIX + key,
            )
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise LawError(
                f"{PREFIX + key} is {value!r}; allowed: a number or a text", param=PREFIX + key
            )
        options[key] = value
    base = own.options if name == own.info.name else {}
    try:
        return settings.build(Acceptance(name, MappingProxyType({**base, **options})))
    except LawError as error:
        if error.param is not None and not error.param.startswith(PREFIX):
            error.param = PREFIX + error.param
        raise
