"""The three ways of asking for a law, which layer decides, and what may not be combined."""

import itertools

import pytest

from leeway.core.config import resolve
from leeway.core.errors import ConfigError
from leeway.core.types import Acceptance


def configured(tmp_path, env=None, file="", **flags):
    (tmp_path / "leeway.toml").write_text(file)
    home = {"XDG_CONFIG_HOME": str(tmp_path), "HOME": str(tmp_path)}
    return resolve(flags, environ=home | (env or {}), cwd=tmp_path)


def acceptance(tmp_path, env=None, file="", **flags):
    return configured(tmp_path, env, file, **flags).engine.acceptance


def refusal(tmp_path, env=None, file="", **flags):
    with pytest.raises(ConfigError) as caught:
        acceptance(tmp_path, env, file, **flags)
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


def test_t22_each_pair_of_ways_is_refused_with_both_origins(tmp_path):
    ways = {
        "typical_threshold": "0.3",
        "cascade_threshold": "0",
        "law": "block",
    }
    for first, second in itertools.combinations(ways, 2):
        message = refusal(tmp_path, **{first: ways[first], second: ways[second]})
        assert f"--{first.replace('_', '-')}" in message, message
        assert f"--{second.replace('_', '-')}" in message, message
        assert "cannot work together" in message
        env = {f"LEEWAY_{name.upper()}": ways[name] for name in (first, second)}
        message = refusal(tmp_path, env)
        assert all(f"from {variable}" in message for variable in env), message
        file = "".join(f'{name} = "{ways[name]}"\n' for name in (first, second))
        assert refusal(tmp_path, file=file).count("leeway.toml: ") == 2


SAMPLE = """
law = "typical"
law_option = { delta = 0.3, off_set = "coin" }
"""
TYPICAL_FILE = """
typical_threshold = 0.3
typical_eps = 0.5
law_option = { off_set = "coin" }
"""
CASCADE_FILE = """
cascade_threshold = 0.2
cascade_rule = "opt"
"""
BLOCK_FILE = 'law = "block"\n'


@pytest.mark.parametrize("file", [SAMPLE, TYPICAL_FILE, CASCADE_FILE, BLOCK_FILE])
@pytest.mark.parametrize("layer", ["flag", "env"])
@pytest.mark.parametrize(
    ("higher", "law", "options"),
    [
        ({"law": "block"}, "block", {}),
        ({"law": "rejection"}, "rejection", {}),
        ({"law": "clip", "law_option": "c1=2"}, "clip", {"c1": 2}),
        ({"typical_threshold": "0.5"}, "typical", {"delta": 0.5, "eps": 1.0}),
        ({"cascade_threshold": "0.5"}, "tokenv3", {"alpha": 0.5}),
        ({"cascade_threshold": "0", "cascade_rule": "opt"}, "opt", {"alpha": 0.0}),
    ],
)
def test_the_highest_layer_that_names_a_law_decides_alone(
    tmp_path, file, layer, higher, law, options
):
    env = {f"LEEWAY_{name.upper()}": value for name, value in higher.items()}
    flags = higher if layer == "flag" else {}
    config = configured(tmp_path, env if layer == "env" else {}, file, **flags)
    assert config.engine.acceptance == Acceptance(law, options)
    assert config.engine.origin("acceptance").layer == layer
    assert {item.origin.layer for item in config.values.values()} <= {"default", layer}


def test_a_flag_stands_over_two_layers(tmp_path):
    env = {"LEEWAY_CASCADE_THRESHOLD": "0.5", "LEEWAY_LAW_OPTION": "off_set=coin"}
    assert acceptance(tmp_path, env, SAMPLE).law == "tokenv3"
    assert acceptance(tmp_path, env, SAMPLE, law="block") == Acceptance("block", {})


def test_what_is_set_aside_says_for_what(tmp_path):
    config = configured(tmp_path, {}, TYPICAL_FILE, law="block")
    for name in ("typical_threshold", "typical_eps", "law_option"):
        assert config.values[name].origin.name == "default (set aside by --law)"
    assert config.values["typical_threshold"].value is None
    assert config.values["typical_eps"].value == 1.0


def test_a_layer_that_is_set_aside_may_conflict_in_itself(tmp_path):
    file = BLOCK_FILE + CASCADE_FILE
    assert acceptance(tmp_path, file=file, typical_threshold="0.3").law == "typical"
    assert "cannot work together" in refusal(tmp_path, file=file)
    found = acceptance(tmp_path, file=file, cascade_threshold="off")
    assert found == Acceptance("block", {})


@pytest.mark.parametrize(
    ("file", "flags", "law", "options"),
    [
        (
            SAMPLE,
            {"law_option": ["delta=0.7"]},
            "typical",
            {"delta": 0.7, "off_set": "coin"},
        ),
        (
            SAMPLE,
            {"law_option": ["eps=0.5"]},
            "typical",
            {"delta": 0.3, "eps": 0.5, "off_set": "coin"},
        ),
        (
            TYPICAL_FILE,
            {"law_option": ["delta=0.7"]},
            "typical",
            {"delta": 0.7, "eps": 0.5, "off_set": "coin"},
        ),
        (
            TYPICAL_FILE,
            {"typical_eps": "0.9"},
            "typical",
            {"delta": 0.3, "eps": 0.9, "off_set": "coin"},
        ),
        (CASCADE_FILE, {"cascade_rule": "tokenv1"}, "tokenv1", {"alpha": 0.2}),
        (
            "typical_threshold = 0.3\nlaw_option = { eps = 0.6 }\n",
            {"typical_eps": "0.9"},
            "typical",
            {"delta": 0.3, "eps": 0.9},
        ),
    ],
)
def test_options_of_a_higher_layer_act_on_the_law_named_below(tmp_path, file, flags, law, options):
    found = acceptance(tmp_path, file=file, **flags)
    assert found == Acceptance(law, options)


def test_options_merge_over_all_layers_and_keep_their_origins(tmp_path):
    env = {"LEEWAY_LAW_OPTION": "eps=0.5,delta=0.4"}
    engine = configured(tmp_path, env, SAMPLE, law_option=["delta=0.7"]).engine
    assert dict(engine.acceptance.options) == {"delta": 0.7, "eps": 0.5, "off_set": "coin"}
    assert engine.origin("acceptance.delta").name == "--law-option"
    assert engine.origin("acceptance.eps").name == "LEEWAY_LAW_OPTION"
    assert engine.origin("acceptance.off_set").name.endswith("leeway.toml: law_option")
    assert engine.origin("acceptance").name.endswith("leeway.toml: law")


@pytest.mark.parametrize(
    ("file", "flags"),
    [
        (SAMPLE, {"typical_threshold": "0"}),
        (TYPICAL_FILE, {"typical_threshold": "0"}),
        (TYPICAL_FILE, {"law": "none"}),
        (CASCADE_FILE, {"cascade_threshold": "off"}),
        (CASCADE_FILE, {"law": "off"}),
        ('law = "tokenv1"\nlaw_option = { alpha = 0.2 }\n', {"cascade_threshold": "off"}),
        (SAMPLE, {"law": "none"}),
    ],
)
def test_a_higher_layer_switches_the_law_off(tmp_path, file, flags):
    config = configured(tmp_path, {}, file, **flags)
    assert config.engine.acceptance == Acceptance("rejection", {})
    assert config.engine.origin("acceptance").layer == "flag"


@pytest.mark.parametrize(
    ("file", "flags", "law"),
    [
        (SAMPLE, {"cascade_threshold": "off"}, "typical"),
        (CASCADE_FILE, {"typical_threshold": "0"}, "opt"),
        (BLOCK_FILE, {"typical_threshold": "0", "cascade_threshold": "off"}, "block"),
    ],
)
def test_switching_off_one_kind_leaves_the_others(tmp_path, file, flags, law):
    assert acceptance(tmp_path, file=file, **flags).law == law


def test_switching_off_does_not_bring_back_a_lower_law(tmp_path):
    env = {"LEEWAY_TYPICAL_THRESHOLD": "0.3"}
    found = acceptance(tmp_path, env, CASCADE_FILE, typical_threshold="0")
    assert found == Acceptance("rejection", {})


def test_an_option_beside_a_switched_off_law_has_nothing_to_act_on(tmp_path):
    flags = {"typical_threshold": "0", "law_option": ["off_set=coin"]}
    message = refusal(tmp_path, {}, SAMPLE, **flags)
    assert "'off_set' (from --law-option) has no law to act on" in message


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
def test_t22_an_option_with_nothing_to_act_on_is_refused(tmp_path, flags, needed):
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
