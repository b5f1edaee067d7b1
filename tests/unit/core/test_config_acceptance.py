"""The three ways of asking for a law, and what may not be combined."""

import itertools

import pytest

from leeway.core.config import resolve
from leeway.core.errors import ConfigError
from leeway.core.types import Acceptance


def acceptance(tmp_path, env=None, **flags):
    home = {"XDG_CONFIG_HOME": str(tmp_path), "HOME": str(tmp_path)}
    return resolve(flags, environ=home | (env or {}), cwd=tmp_path).engine.acceptance


def refusal(tmp_path, env=None, **flags):
    with pytest.raises(ConfigError) as caught:
        acceptance(tmp_path, env, **flags)
    return caught.value.message


@pytest.mark.parametrize(
    ("flags", "law", "options"),
    [
        ({}, "rejection", {}),
        ({"typical_threshold": "0.3"}, "typical", {"delta": 0.3, "eps": 1.0}),
        (
            {"typical_threshold": "0.3", "typical_eps": "0.5"},
            "typical",
            {"delta": 0.3, "eps": 0.5},
        ),
        ({"typical_threshold": "0"}, "rejection", {}),
        ({"typical_threshold": "off"}, "rejection", {}),
        ({"typical_threshold": "0", "typical_eps": "0.5"}, "rejection", {}),
        ({"cascade_threshold": "0"}, "tokenv3", {"alpha": 0.0}),
        ({"cascade_threshold": "-0.5"}, "tokenv3", {"alpha": -0.5}),
        ({"cascade_threshold": "0.2", "cascade_rule": "opt"}, "opt", {"alpha": 0.2}),
        ({"cascade_threshold": "off"}, "rejection", {}),
        ({"typical_threshold": "0", "cascade_threshold": "0"}, "tokenv3", {"alpha": 0.0}),
        ({"typical_threshold": "0.3", "cascade_threshold": "off"}, "typical", None),
        ({"law": "block"}, "block", {}),
        ({"law": "none"}, "rejection", {}),
        (
            {"law": "clip", "law_option": ["c1=2", "a-b=word", "n=3"]},
            "clip",
            {"c1": 2, "a_b": "word", "n": 3},
        ),
        ({"law": "typical", "typical_threshold": "0.3"}, "typical", {"delta": 0.3, "eps": 1.0}),
        ({"law": "typical", "law_option": ["delta=0.3"]}, "typical", {"delta": 0.3}),
        (
            {"typical_threshold": "0.3", "law_option": ["off_set=coin"]},
            "typical",
            {"delta": 0.3, "eps": 1.0, "off_set": "coin"},
        ),
        ({"law": "tokenv3", "cascade_threshold": "0.2"}, "tokenv3", {"alpha": 0.2}),
        ({"law": "block", "typical_threshold": "0"}, "block", {}),
    ],
)
def test_flags_give_one_law(tmp_path, flags, law, options):
    found = acceptance(tmp_path, **flags)
    assert found.law == law
    if options is not None:
        assert dict(found.options) == options


def test_each_pair_of_ways_is_refused_with_both_origins(tmp_path):
    ways = {
        "typical_threshold": "0.3",
        "cascade_threshold": "0",
        "law": "block",
    }
    for first, second in itertools.combinations(ways, 2):
        env = {f"LEEWAY_{first.upper()}": ways[first]}
        message = refusal(tmp_path, env, **{second: ways[second]})
        assert f"LEEWAY_{first.upper()}" in message, message
        assert f"--{second.replace('_', '-')}" in message, message
        assert "cannot work together" in message


def test_rejection_asked_for_by_name_is_another_law_too(tmp_path):
    message = refusal(tmp_path, law="rejection", typical_threshold="0.3")
    assert "'rejection' (from --law)" in message and "--typical-threshold 0" in message


def test_cascade_law_and_default_rule_say_how_to_name_the_rule(tmp_path):
    message = refusal(tmp_path, law="opt", cascade_threshold="0.3")
    assert "--cascade-rule opt" in message


@pytest.mark.parametrize(
    ("flags", "needed"),
    [
        ({"typical_eps": "0.5"}, "--typical-threshold"),
        ({"typical_eps": "1.0"}, "--typical-threshold"),
        ({"cascade_rule": "opt"}, "--cascade-threshold"),
        ({"law_option": ["delta=0.3"]}, "--law"),
    ],
)
def test_an_option_with_nothing_to_act_on_is_refused(tmp_path, flags, needed):
    assert needed in refusal(tmp_path, **flags)


def test_an_option_given_twice_is_refused(tmp_path):
    message = refusal(tmp_path, typical_threshold="0.3", law_option=["delta=0.2"])
    assert "'delta'" in message and "--law-option" in message and "--typical-threshold" in message


def test_unknown_cascade_rule(tmp_path):
    message = refusal(tmp_path, cascade_threshold="0", cascade_rule="tokenv4")
    assert "opt, tokenv1, tokenv2, tokenv3" in message and "--cascade-rule" in message


def test_result_cannot_be_changed(tmp_path):
    found = acceptance(tmp_path, typical_threshold="0.3")
    assert isinstance(found, Acceptance)
    with pytest.raises(TypeError):
        found.options["delta"] = 0.1
