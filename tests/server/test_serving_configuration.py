"""What /health says of the configuration: each setting's value and source, and what it engaged."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from leeway.core.config import ServerConfig, resolve
from leeway.core.config_settings import SETTINGS
from leeway.core.errors import ConfigError
from leeway.engine.load import load_engine
from leeway.engine.service import EngineService
from leeway.server.app import create_app
from leeway.server.health import _settings
from tests.server.conftest import local_client, wait_until_ready
from tests.server.fake_service import FakeService
from tests.support.tiny_models import write_tiny_gguf

NAMES = sorted(_settings(ServerConfig()))
NEEDS = {"draft_weights": {"head": "h"}}
FOLLOW = {"host": ("allowed_hosts",)}  # its own name is one
GIVEN = {"allow_laws": "typical"}
GUESSES = (
    "2",
    "0.5",
    "true",
    "512MiB",
    "https://a.example",
    "127.0.0.2",
    "name",
    "64",
    "rejection",
)


@pytest.fixture
def home(tmp_path):
    return {"XDG_CONFIG_HOME": str(tmp_path / "xdg"), "XDG_CACHE_HOME": str(tmp_path / "cache")}


def other_texts(setting):
    """Yield texts that set another value than the default one."""
    given = [GIVEN[setting.name]] if setting.name in GIVEN else []
    for text in (*given, *setting.choices, *GUESSES):
        try:
            value = setting.reader(text)
        except ValueError:
            continue
        if value not in (None, setting.default):
            yield text


def said(config):
    service = FakeService(config.engine)
    with local_client(create_app(service, config.server)) as client:
        return client.get("/health").json()["settings"]


def resolved(home, tmp_path, setting):
    """Return a text that the setting takes with the configurations by flag, variable and file."""
    for text in other_texts(setting):
        both = {**NEEDS.get(setting.name, {}), setting.name: text}
        try:
            by_flag = resolve(both, environ=home, cwd=tmp_path)
        except ConfigError:
            continue
        env = {SETTINGS[name].env: value for name, value in both.items()}
        by_env = resolve({}, environ={**home, **env}, cwd=tmp_path)
        lines = "".join(f'{name} = "{value}"\n' for name, value in both.items())
        (tmp_path / "leeway.toml").write_text(lines)
        by_file = resolve({}, environ=home, cwd=tmp_path)
        return by_flag, by_env, by_file
    raise AssertionError(f"no guess is a value of {setting.name}: give one in GUESSES")


@pytest.mark.parametrize("name", NAMES)
def test_t22_health_has_the_value_in_force_and_its_source(home, tmp_path, name):
    setting = SETTINGS[name]
    plain = said(resolve({}, environ=home, cwd=tmp_path))
    assert plain[name]["origin"] == "default"
    configs = resolved(home, tmp_path, setting)
    sources = (setting.flag, setting.env, f"{tmp_path}/leeway.toml: {name}")
    for config, source in zip(configs, sources, strict=True):
        found = said(config)
        assert found[name]["origin"] == source
        assert found[name]["value"] != plain[name]["value"]
        changed = {one for one in NAMES if found[one] != plain[one]}
        assert changed <= {name, *NEEDS.get(name, {}), *FOLLOW.get(name, ()), "drafter"}


def test_t22_health_covers_every_setting_of_engine_and_server_but_secrets_and_files():
    told = {
        name
        for name, setting in SETTINGS.items()
        if setting.group in {"model", "drafting", "server"} and not setting.is_secret
    }
    missing = told - set(NAMES)
    assert missing <= {"cache_dir", "tls_cert", "tls_key", "api_key_file"}
    assert set(asdict(ServerConfig().engine.limits)) <= set(NAMES)


def test_t22_the_key_is_not_told():
    config = ServerConfig(api_key="sesame")
    with local_client(create_app(FakeService(), config)) as client:
        assert "sesame" not in client.get("/health").text


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_tiny_gguf(tmp_path_factory.mktemp("models") / "target.gguf", "llama", seed=1).path


def served(model, home, tmp_path, **flags):
    """Return what /health says of a real engine, and the fingerprint of an answer."""
    flags = {"model": str(model), "kv_memory": "4MiB", **flags}
    config = resolve(flags, environ=home, cwd=tmp_path).server
    service = EngineService(lambda: load_engine(config.engine))
    service.start()
    with local_client(create_app(service, config)) as client:
        wait_until_ready(service)
        health = client.get("/health").json()
        body = {"prompt": "hello", "max_tokens": 2, "temperature": 0}
        answer = client.post("/v1/completions", json=body).json()
        service.stop()
    engaged = {name: health[name] for name in ("backend", "drafter", "load")}
    engaged["installed"] = health["acceptance"]["installed"]
    engaged["limits"] = health["acceptance"]["limits"]
    return engaged, answer["system_fingerprint"]


@pytest.fixture(scope="module")
def plainly(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    return served(model, {"XDG_CACHE_HOME": str(folder)}, folder)


CHANGES = {
    "weights": "f32",
    "kv_cache": "u8",
    "row_shape": "fast",
    "drafter": "none",
    "num_speculative_tokens": "2",
    "draft_length": "adaptive",
    "typical_threshold": "0.3",
    "law": "block",
    "exact_prefix": "3",
    "tv_budget": "0.1",
}
SAME_TEXT = {
    "kv_memory": "8MiB",
    "num_threads": "1",
    "prefill_chunk_len": "64",
    "prefix_cache": "off",
}


@pytest.mark.parametrize("name", [*CHANGES, *SAME_TEXT])
def test_t22_changing_a_flag_changes_what_is_engaged(model, home, tmp_path, plainly, name):
    """And the fingerprint, where it decides what a seed yields."""
    engaged, fingerprint = served(model, home, tmp_path, **{name: (CHANGES | SAME_TEXT)[name]})
    assert engaged != plainly[0]
    assert (fingerprint != plainly[1]) == (name in CHANGES)
