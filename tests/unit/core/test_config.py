"""Precedence, origins and refusals of the resolver."""

import dataclasses
from pathlib import Path

import pytest
from tests.support.resolved_config import refusal, resolved

from leeway.core.config import (
    EngineConfig,
    ServerConfig,
    default_cache_dir,
    engine_config,
    resolve,
)
from leeway.core.config_settings import SETTINGS
from leeway.core.errors import ConfigError
from leeway.core.limits import Limits
from leeway.core.types import Acceptance, SamplingParams


def test_defaults_equal_the_dataclasses_own(home, tmp_path):
    config = resolved(home, tmp_path)
    cache_dir = tmp_path / "cache" / "leeway"
    assert config.engine == EngineConfig(cache_dir=cache_dir)
    assert config.server == ServerConfig(engine=EngineConfig(cache_dir=cache_dir))
    assert config.sampling == SamplingParams()
    assert config.file is None
    assert {item.origin.layer for item in config.values.values()} == {"default"}


def test_flag_beats_environment_beats_file_beats_default(home, tmp_path):
    file = 'weights = "f32"\nport = 1\nmax_num_seqs = 2\n'
    env = {"LEEWAY_WEIGHTS": "16bit", "LEEWAY_PORT": "3"}
    config = resolved(home, tmp_path, flags={"weights": "int4"}, env=env, file=file)
    assert (config.engine.weights, config.server.port, config.engine.max_num_seqs) == ("int4", 3, 2)
    assert config.engine.origin("weights").name == "--weights"
    assert config.server.origin("port").name == "LEEWAY_PORT"
    assert config.engine.origin("max_num_seqs").name == f"{tmp_path}/leeway.toml: max_num_seqs"
    assert config.engine.origin("row_shape").layer == "default"


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_every_setting_can_be_given_by_flag_environment_and_file(home, tmp_path, name):
    written = {
        "model": "m.gguf",
        "weights": "int4",
        "kv_cache": "u8",
        "kv_memory": "2GiB",
        "num_threads": "3",
        "row_shape": "fast",
        "prefix_cache": "off",
        "max_num_seqs": "2",
        "prefill_chunk_len": "64",
        "cache_dir": "/c",
        "drafter": "none",
        "draft_model": "d.gguf",
        "draft_weights": "int4",
        "head": "h.safetensors",
        "num_speculative_tokens": "5",
        "draft_length": "adaptive",
        "draft_cost": "0.2",
        "draft_temperature": "0.7",
        "typical_threshold": "0.3",
        "typical_eps": "0.7",
        "cascade_threshold": "0",
        "cascade_rule": "opt",
        "law": "clip",
        "law_option": "c1=2",
        "host": "::1",
        "port": "0",
        "max_num_waiting": "5",
        "request_timeout_s": "2.5",
        "allow_laws": "clip,typical",
        "api_key": "k",
        "api_key_file": "/keys",
        "tls_cert": "/c.pem",
        "tls_key": "/k.pem",
        "allow_origin": "https://a.example",
        "allowed_hosts": "a.example",
        "max_body_bytes": "1MiB",
        "drain_timeout_s": "2.5",
        "log_format": "json",
        "tv_budget": "0.1",
        "exact_prefix": "2",
        "hard_support": "true",
        "phase": "reasoning",
        "phase_begin": "[T]",
        "phase_end": "[/T]",
        "max_tokens": "7",
        "temperature": "0.5",
        "top_k": "20",
        "top_p": "0.9",
        "min_p": "0.1",
        "seed": "11",
        "stop": "END",
        "presence_penalty": "1",
        "frequency_penalty": "1",
        "repetition_penalty": "1.1",
        "json": "true",
        "quiet": "true",
        "no_color": "true",
    }
    needs = {
        "typical_eps": ("typical_threshold", "0.3"),
        "cascade_rule": ("cascade_threshold", "0.5"),
        "law_option": ("law", "clip"),
        "draft_weights": ("draft_model", "d.gguf"),
        "tls_cert": ("tls_key", "/k.pem"),
        "tls_key": ("tls_cert", "/c.pem"),
    }
    both = {name: written[name]} | dict([needs[name]] if name in needs else [])
    by_flag = resolved(home, tmp_path, flags=both)
    by_env = resolved(home, tmp_path, env={"LEEWAY_" + k.upper(): v for k, v in both.items()})
    lines = "".join(f'{key} = "{value}"\n' for key, value in both.items())
    by_file = resolved(home, tmp_path, file=lines)
    values = [config.values[name].value for config in (by_flag, by_env, by_file)]
    layers = [config.values[name].origin.layer for config in (by_flag, by_env, by_file)]
    assert values[0] == values[1] == values[2] != resolve(environ=home).values[name].value
    assert layers == ["flag", "env", "file"]


def test_limits_stay_in_force_whichever_layer_chooses_the_law(home, tmp_path):
    file = "tv_budget = 0.2\nphase = 'reasoning'\nexact_prefix = 3\n"
    flags = {"law": "clip", "law_option": ["c1=2"], "exact_prefix": "4"}
    limits = resolved(home, tmp_path, flags=flags, file=file).engine.limits
    assert limits == Limits(tv_budget=0.2, exact_prefix=4, phase="reasoning")
    assert engine_config(law="clip", law_option={"c1": 2}, hard_support=True).limits == Limits(
        hard_support=True
    )
    for given in ("-1", "1e10"):
        with pytest.raises(ConfigError, match=f"tv_budget '{given}'.* give 0"):
            resolved(home, tmp_path, flags={"tv_budget": given})
    acceptance = Acceptance("clip", {"c1": 2})
    assert engine_config(acceptance=acceptance, tv_budget=1).limits.tv_budget == 1


def test_toml_types_are_taken_as_they_are(home, tmp_path):
    file = """
law = "typical"
law_option = { delta = 0.3, off_set = "coin" }
kv_memory = 1048576
stop = ["a,b", "c"]
allow_laws = ["clip", "opt"]
quiet = true
"""
    config = resolved(home, tmp_path, file=file)
    assert config.engine.acceptance == Acceptance("typical", {"delta": 0.3, "off_set": "coin"})
    assert config.engine.kv_memory_bytes == 2**20
    assert config.sampling.stop == ("a,b", "c")
    assert config.server.allow_laws == ("clip", "opt")
    assert config.is_on("quiet")


def test_unknown_file_key_names_file_and_suggests(home, tmp_path):
    message = refusal(home, tmp_path, file="typical_treshold = 0.3\n")
    assert "unknown key 'typical_treshold'" in message
    assert str(tmp_path / "leeway.toml") in message
    assert "did you mean 'typical_threshold'?" in message


def test_unknown_variable_is_refused_with_a_suggestion(home, tmp_path):
    message = refusal(home, tmp_path, env={"LEEWAY_WEIGTHS": "int8"})
    assert "'LEEWAY_WEIGTHS'; did you mean 'LEEWAY_WEIGHTS'?" in message


def test_empty_variable_counts_as_unset(home, tmp_path):
    assert resolved(home, tmp_path, env={"LEEWAY_PORT": ""}).server.port == 8000


@pytest.mark.parametrize(
    ("env", "is_off"),
    [({}, False), ({"NO_COLOR": "1"}, True), ({"NO_COLOR": ""}, False)],
)
def test_no_color_convention(home, tmp_path, env, is_off):
    assert resolved(home, tmp_path, env=env).is_on("no_color") is is_off


def test_explicit_no_color_setting_beats_the_convention(home, tmp_path):
    env = {"NO_COLOR": "1", "LEEWAY_NO_COLOR": "false"}
    assert not resolved(home, tmp_path, env=env).is_on("no_color")


def test_first_file_found_is_the_only_one_read(home, tmp_path):
    own = tmp_path / "xdg" / "leeway"
    own.mkdir(parents=True)
    (own / "config.toml").write_text("port = 1\nmax_num_seqs = 2\n")
    assert resolved(home, tmp_path).server.port == 1
    config = resolved(home, tmp_path, file="port = 3\n")
    assert (config.server.port, config.engine.max_num_seqs) == (3, 8)
    by_env = tmp_path / "env.toml"
    by_env.write_text("port = 4\n")
    env = {"LEEWAY_CONFIG": str(by_env)}
    assert resolved(home, tmp_path, env=env).server.port == 4
    by_flag = tmp_path / "flag.toml"
    by_flag.write_text("port = 5\n")
    config = resolved(home, tmp_path, env=env, config_path=by_flag)
    assert (config.server.port, config.file) == (5, by_flag)


def test_file_in_the_working_folder_is_named_shortly(home, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("leeway.toml").write_text("port = 9\n")
    assert resolve(environ=home).server.origin("port").name == "leeway.toml: port"


def test_named_file_must_exist(home, tmp_path):
    message = refusal(home, tmp_path, config_path=tmp_path / "no.toml")
    assert "no.toml" in message and "--config" in message
    assert "LEEWAY_CONFIG" in refusal(home, tmp_path, env={"LEEWAY_CONFIG": "/no.toml"})


@pytest.mark.parametrize("content", ["port = ", "[port]\n", "port = 1\nport = 2\n"])
def test_broken_files_are_refused_by_name(home, tmp_path, content):
    assert "leeway.toml" in refusal(home, tmp_path, file=content)


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        ({"weights": "int3"}, ["weights 'int3'", "--weights", "int8, int4, 16bit, f32"]),
        ({"port": "99999"}, ["port '99999'", "from 0 to 65535"]),
        ({"port": "http"}, ["port 'http'", "not an integer"]),
        ({"kv_memory": "2 GoB"}, ["kv_memory '2 GoB'", "2GiB"]),
        ({"num_threads": "0"}, ["num_threads '0'", "1 to 1024"]),
        ({"temperature": "warm"}, ["temperature 'warm'", "not a number"]),
        ({"temperature": "nan"}, ["temperature 'nan'", "finite"]),
        ({"max_tokens": "-1"}, ["max_tokens '-1'", "1 or up"]),
        ({"num_speculative_tokens": "2.5"}, ["'2.5'", "0 to 32"]),
        ({"seed": "-1"}, ["seed '-1'", "0 to 18446744073709551615"]),
        ({"law": "clip", "law_option": ["c1"]}, ["'c1'", "key=value"]),
        ({"law": "clip", "law_option": ["c1=1", "c1=2"]}, ["'c1' twice"]),
        ({"quiet": "perhaps"}, ["quiet 'perhaps'", "true or false"]),
        ({"model": " "}, ["model ' '", "empty"]),
        ({"allow_laws": ","}, ["allow_laws ','", "names nothing"]),
    ],
)
def test_a_bad_value_names_itself_its_origin_and_what_is_allowed(home, tmp_path, flags, parts):
    message = refusal(home, tmp_path, flags=flags)
    assert all(part in message for part in parts), message
    assert f"--{next(reversed(flags)).replace('_', '-')}" in message


def test_bad_values_of_other_layers_name_them(home, tmp_path):
    assert "(from LEEWAY_PORT)" in refusal(home, tmp_path, env={"LEEWAY_PORT": "x"})
    file = "seed = true\n"
    assert f"(from {tmp_path}/leeway.toml: seed)" in refusal(home, tmp_path, file=file)


def test_a_bad_secret_is_not_printed(home, tmp_path):
    message = refusal(home, tmp_path, file="api_key = 123456\n")
    assert "123456" not in message and "(hidden)" in message


def test_secret_stays_out_of_the_repr(home, tmp_path):
    config = resolved(home, tmp_path, flags={"api_key": "sesame"})
    assert config.server.api_key == "sesame"
    assert "sesame" not in repr(config.server)


class TestEngineConfig:
    def test_takes_field_names_and_settings(self):
        config = engine_config(model="m", kv_memory_bytes=5, typical_threshold=0.3)
        assert config.kv_memory_bytes == 5
        assert config.acceptance == Acceptance("typical", {"delta": 0.3, "eps": 1.0})
        assert config.origin("model").name == "argument model"
        assert engine_config(kv_memory="1KiB").kv_memory_bytes == 1024

    def test_reads_neither_file_nor_variables(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        Path("leeway.toml").write_text("weights = 'f32'\n")
        monkeypatch.setenv("LEEWAY_WEIGHTS", "int4")
        assert engine_config().weights == "int8"

    def test_takes_an_acceptance(self):
        asked = Acceptance("clip", {"c1": 2.0})
        assert engine_config(acceptance=asked).acceptance == asked
        with pytest.raises(ConfigError, match="both choose a law"):
            engine_config(acceptance=asked, typical_threshold=0.3)
        with pytest.raises(ConfigError, match="is not an Acceptance"):
            engine_config(acceptance="clip")

    def test_refuses_unknown_and_wrong_arguments(self):
        with pytest.raises(ConfigError, match=r"'wieghts'; did you mean 'weights'\?"):
            engine_config(wieghts="int8")
        with pytest.raises(ConfigError, match="unknown argument 'port'"):
            engine_config(port=8000)
        with pytest.raises(ConfigError, match=r"from argument weights\) is not one of"):
            engine_config(weights=None)

    def test_is_frozen(self):
        with pytest.raises(dataclasses.FrozenInstanceError):
            engine_config().model = "x"


def test_cache_dir(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_cache_dir({}) == tmp_path / ".cache" / "leeway"
    assert default_cache_dir({"XDG_CACHE_HOME": "/x"}) == Path("/x/leeway")
    assert default_cache_dir({"LEEWAY_CACHE_DIR": "~/m"}) == tmp_path / "m"


def test_cache_dir_setting_reaches_the_engine(home, tmp_path):
    config = resolved(home, tmp_path, flags={"cache_dir": "/models"})
    assert config.engine.cache_dir == Path("/models")


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("prefix_cache", "maybe", "on, off"),
        ("max_num_waiting", "-1", "0"),
        ("request_timeout_s", "0.001", "0, or 0.01"),
        ("drain_timeout_s", "-1", "0, or 0.01"),
        ("log_format", "xml", "text, json"),
    ],
)
def test_t22_a_malformed_limit_is_refused_with_its_source(home, tmp_path, name, value, allowed):
    layers = {
        "--" + name.replace("_", "-"): {"flags": {name: value}},
        "LEEWAY_" + name.upper(): {"env": {"LEEWAY_" + name.upper(): value}},
        "leeway.toml": {"file": f'{name} = "{value}"'},
    }
    for source, layer in layers.items():
        message = refusal(home, tmp_path, **layer)
        assert f"{name} '{value}'" in message and source in message and allowed in message
        (tmp_path / "leeway.toml").unlink(missing_ok=True)
