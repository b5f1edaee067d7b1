"""Flags come from the table of settings and are handed on as typed."""

import pytest

from leeway.cli.call import Call
from leeway.cli.main import build_app
from leeway.cli.options import help_text, takes_settings
from leeway.core.config_settings import SETTINGS


def typed(*words):
    """Return the flags that `config show` would be given."""
    _, bound, _ = build_app().parse_args(["config", "show", *words], exit_on_error=False)
    return bound.arguments


@pytest.mark.parametrize("name", [n for n, s in SETTINGS.items() if s.group != "output"])
def test_every_setting_is_a_flag_taken_as_typed(name):
    setting = SETTINGS[name]
    if setting.is_switch:
        assert typed(setting.flag) == {name: True}
        return
    assert typed(setting.flag, "-x=1") == {name: ["-x=1"] if setting.is_list else "-x=1"}


def test_short_flags_are_the_daily_ones_only():
    assert {s.name: s.short for s in SETTINGS.values() if s.short} == {
        "model": "-m",
        "max_tokens": "-n",
        "seed": "-s",
    }
    assert typed("-m", "a", "-n", "3", "-s", "4") == {"model": "a", "max_tokens": "3", "seed": "4"}


def test_lists_repeat():
    assert typed("--law-option", "a=1", "--law-option", "b=2") == {"law_option": ["a=1", "b=2"]}


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=lambda setting: setting.name)
def test_help_says_default_and_variable(setting):
    text = help_text(setting)
    assert setting.env in text and "(default " in text and setting.meaning in text
    assert "None" not in text and "()" not in text


def test_a_verb_gets_only_the_flags_that_were_typed():
    seen = []

    @takes_settings("server")
    def verb(call: Call, extra: int = 0) -> None:
        seen.append((dict(call.flags), extra))

    verb(3, call=Call({"json": True}), port="1", host=None)
    assert seen == [({"json": True, "port": "1"}, 3)]


def test_shown_values():
    shown = {
        "kv_memory": (2**31, "2.0 GiB"),
        "max_body_bytes": (2**23, "8.0 MiB"),
        "num_threads": (None, "all cores"),
        "quiet": (True, "true"),
        "law_option": ({"a": 1, "b": "c"}, "a=1, b=c"),
        "stop": (("a", "b c"), "'a', 'b c'"),
        "allow_laws": (("clip", "opt"), "clip, opt"),
        "allow_origin": (("https://a", "*"), "https://a, *"),
        "tls_cert": (None, "none, plain HTTP"),
        "api_key": ("sesame", "(hidden)"),
        "port": (80, "80"),
    }
    for name, (value, text) in shown.items():
        assert SETTINGS[name].show(value) == text
    assert SETTINGS["stop"].show(()) == "none"
    assert SETTINGS["law_option"].show({}) == "none"
