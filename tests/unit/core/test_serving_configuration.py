"""Every setting, in every layer: what it cannot be is refused, by name and with its source.

The settings are those of the table itself, so that a new one is held to this from its first day.
"""

from pathlib import Path

import pytest

from leeway.core.config import resolve
from leeway.core.config_settings import SETTINGS
from leeway.core.errors import ConfigError

TEXTS = (" ", "nonsense!", "-7", "1e99", "nan", "0x10", "a=1,a=2")
LITERALS = (
    "true",
    "-7",
    "1.5",
    "nan",
    "[]",
    "[1]",
    "[[]]",
    "{a = []}",
    '" "',
    '"nonsense!"',
    "9e99",
)


@pytest.fixture
def home(tmp_path):
    return {"XDG_CONFIG_HOME": str(tmp_path / "xdg"), "XDG_CACHE_HOME": str(tmp_path / "cache")}


def refusal(**given):
    """Return the words of a refusal; None where the value is taken."""
    try:
        resolve(**given)
    except ConfigError as error:
        return error.message
    return None


def takes_any_text(setting):
    """Return whether every text is a value: a name or a path that only its reader can judge."""
    try:
        value = [setting.reader(text) for text in TEXTS][1]
    except ValueError:
        return False
    assert value in ("nonsense!", ("nonsense!",), Path("nonsense!"))
    return True


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_t22_what_no_setting_can_be_is_refused_with_its_source(home, tmp_path, name):
    setting, file = SETTINGS[name], tmp_path / "leeway.toml"
    refused = {"flag": 0, "env": 0, "file": 0}

    def check(layer, source, raw, **given):
        message = refusal(environ={**home, **given.pop("environ", {})}, cwd=tmp_path, **given)
        if message is None:
            return
        refused[layer] += 1
        assert name in message or setting.flag in message, message
        assert source in message, message
        if setting.is_secret and len(raw) > 5:
            assert raw not in message

    for text in TEXTS:
        check("flag", setting.flag, text, flags={name: text})
        check("env", setting.env, text, environ={setting.env: text})
    for literal in LITERALS:
        file.write_text(f"{name} = {literal}\n")
        check("file", f"leeway.toml: {name}", literal, flags={})
    assert refused["file"] > 0
    assert takes_any_text(setting) or min(refused.values()) > 0


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_t22_a_name_that_is_nearly_right_is_refused_with_a_suggestion(home, tmp_path, name):
    wrong = name[:-1] + ("q" if name[-1] != "q" else "z")
    variable = "LEEWAY_" + wrong.upper()
    message = refusal(environ={**home, variable: "1"}, cwd=tmp_path)
    assert f"unknown environment variable {variable!r}; did you mean 'LEEWAY_" in message
    (tmp_path / "leeway.toml").write_text(f"{wrong} = 1\n")
    message = refusal(environ=home, cwd=tmp_path)
    assert f"unknown key {wrong!r}" in message and "did you mean" in message
    assert str(tmp_path / "leeway.toml") in message
