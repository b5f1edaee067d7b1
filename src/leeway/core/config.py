"""Configuration: every setting, read once, with where it came from.

Precedence: flag > environment > file > default, setting by setting; the law is one whole, decided
by the highest layer that names one (see `config_acceptance`). The file is `--config` or
`LEEWAY_CONFIG`, else `./leeway.toml`, else `leeway/config.toml` in the user's configuration folder;
the first found is the only one read. An unknown key or an unknown `LEEWAY_` variable is an error
that names it.

In: flags as a mapping, the environment, a TOML file. Out: one frozen `Config`. No other module
reads the environment. Deliberately does not know which laws or models exist.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, cast

from leeway.core.config_acceptance import (
    LawSettings,
    Value,
    merge_law_layers,
    resolve_acceptance,
)
from leeway.core.config_drafter import resolve_drafter, set_aside
from leeway.core.config_limits import LIMIT_NAMES, limits_of
from leeway.core.config_server import MAX_BODY_BYTES, check_server
from leeway.core.config_setting import ENV_PREFIX
from leeway.core.config_settings import DEFAULT_MODEL, SETTINGS
from leeway.core.config_values import DEFAULT_ORIGIN, Layer, Origin
from leeway.core.errors import ConfigError, did_you_mean
from leeway.core.limits import NO_LIMITS, Limits
from leeway.core.types import Acceptance, SamplingParams

WeightsName = Literal["int8", "int4", "16bit", "f32"]
KVCacheName = Literal["16bit", "u8"]
RowShape = Literal["stable", "fast"]
PrefixCacheName = Literal["on", "off"]
DraftLengthName = Literal["fixed", "adaptive"]
LogFormatName = Literal["text", "json"]
DrafterName = Literal["auto", "none", "ngram", "draft_model", "mtp", "mtp_ngram"]

_Raw = Mapping[str, tuple[object, Origin]]

CONFIG_ENV = ENV_PREFIX + "CONFIG"
CONFIG_NAME = "leeway.toml"
_ENGINE_GROUPS = ("model", "drafting", "law")


def _no_origins() -> Mapping[str, Origin]:
    return MappingProxyType({})


def default_cache_dir(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder of fetched models: LEEWAY_CACHE_DIR, else leeway in XDG_CACHE_HOME."""
    env = os.environ if environ is None else environ
    own = env.get(ENV_PREFIX + "CACHE_DIR", "").strip()
    if own:
        return Path(own).expanduser()
    return _base_dir(env, "XDG_CACHE_HOME", ".cache") / "leeway"


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """What an engine is built from.

    `origins` says by field name where a value came from, by `acceptance.NAME` for a law's options.
    `kv_memory_bytes` None takes what is free, `num_threads` None all cores. `draft_model` is set
    exactly when `drafter` is `draft_model`. `draft_cost` None takes the drafter's usual cost.
    """

    model: str = DEFAULT_MODEL
    weights: WeightsName = "int8"
    kv_cache: KVCacheName = "16bit"
    kv_memory_bytes: int | None = None
    num_threads: int | None = None
    row_shape: RowShape = "stable"
    max_num_seqs: int = 8
    prefill_chunk_len: int = 512
    prefix_cache: PrefixCacheName = "on"
    drafter: DrafterName = "auto"
    draft_model: str | None = None
    head: str | None = None
    draft_weights: WeightsName = "int8"
    num_speculative_tokens: int = 3
    draft_length: DraftLengthName = "fixed"
    draft_temperature: float = 0.8
    draft_cost: float | None = None
    acceptance: Acceptance = field(default_factory=Acceptance)
    limits: Limits = NO_LIMITS
    cache_dir: Path = field(default_factory=default_cache_dir)
    origins: Mapping[str, Origin] = field(default_factory=_no_origins, compare=False, repr=False)

    def origin(self, name: str) -> Origin:
        """Return where this field's value came from."""
        return self.origins.get(name, DEFAULT_ORIGIN)


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """What a server is built from.

    `allowed_hosts` None answers to local names where `host` is local, else to any (`("*",)`).
    `allow_laws` None allows the exact laws and the engine's own; `("all",)` every law. `api_key`
    and `api_key_file` None ask for no key. `tls_cert` and `tls_key` are given together. `port` 0
    takes a free one. `max_num_waiting` counts requests beyond those that run; `request_timeout_s` 0
    sets no limit, `drain_timeout_s` 0 waits for no answer.
    """

    engine: EngineConfig = field(default_factory=EngineConfig)
    host: str = "127.0.0.1"
    port: int = 8000
    tls_cert: Path | None = None
    tls_key: Path | None = None
    allowed_hosts: tuple[str, ...] | None = None
    allow_origin: tuple[str, ...] = ()
    api_key: str | None = field(default=None, repr=False)
    api_key_file: Path | None = None
    allow_laws: tuple[str, ...] | None = None
    max_num_waiting: int = 256
    max_body_bytes: int = MAX_BODY_BYTES
    request_timeout_s: float = 0.0
    drain_timeout_s: float = 30.0
    log_format: LogFormatName = "text"
    origins: Mapping[str, Origin] = field(default_factory=_no_origins, compare=False, repr=False)

    def origin(self, name: str) -> Origin:
        """Return where this field's value came from."""
        return self.origins.get(name, DEFAULT_ORIGIN)


@dataclass(frozen=True, slots=True)
class Config:
    """Everything resolved: what `leeway config show` prints.

    `values` has every setting of the table, checked, with its origin; `file` is the file read.
    """

    server: ServerConfig
    sampling: SamplingParams
    values: Mapping[str, Value]
    file: Path | None

    @property
    def engine(self) -> EngineConfig:
        """The engine's part."""
        return self.server.engine

    def is_on(self, name: str) -> bool:
        """Return a switch of the output group."""
        return bool(self.values[name].value)


def resolve(
    flags: Mapping[str, object] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    config_path: Path | str | None = None,
    cwd: Path | None = None,
) -> Config:
    """Return the configuration in force.

    Args:
        flags: values given on the command line by setting name; None values were not given.
        environ: the environment; `os.environ` when None.
        config_path: the file named by `--config`.
        cwd: where `leeway.toml` is looked for; the working folder when None.

    Raises:
        ConfigError: a value, name or combination is wrong; names it and its origin.
    """
    env = os.environ if environ is None else environ
    file = _find_file(config_path, env, Path.cwd() if cwd is None else cwd)
    typed = {
        name: (value, Origin("flag", SETTINGS[name].flag))
        for name, value in (flags or {}).items()
        if value is not None
    }
    layers: list[_Raw] = [typed, env_layer(env), _file_layer(file)]
    raw = {name: item for layer in reversed(layers) for name, item in layer.items()}
    plain = {name: read_setting(name, *raw[name]) for name in raw if not _is_law(name)}
    law = merge_law_layers(_law_layers(layers))
    for name in raw:
        if _is_law(name) and name not in law.values:
            assert law.decider is not None
            plain[name] = set_aside(name, law.decider)
    return _build(plain, law, env, file)


def engine_config(**settings: object) -> EngineConfig:
    """Return the engine's configuration from Python arguments; reads no file.

    Takes the names of `EngineConfig`'s fields and those of the settings table (such as
    `typical_threshold` or `kv_memory`). `acceptance` excludes the law settings.

    Raises:
        ConfigError: as `resolve`.
    """
    acceptance = settings.pop("acceptance", None)
    if "kv_memory_bytes" in settings:
        settings["kv_memory"] = settings.pop("kv_memory_bytes")
    known = {name for name in SETTINGS if SETTINGS[name].group in _ENGINE_GROUPS}
    given = {}
    for name, value in settings.items():
        if name not in known:
            hint = did_you_mean(name, known)
            allowed = ", ".join(sorted(known))
            raise ConfigError(f"unknown argument {name!r}{hint}; known are {allowed}")
        given[name] = read_setting(name, value, Origin("api", f"argument {name}"))
    if acceptance is not None:
        law_names = [name for name in given if _is_law(name)]
        if law_names:
            raise ConfigError(
                f"argument acceptance and argument {law_names[0]} both choose a law; drop one",
                param=law_names[0],
            )
        if not isinstance(acceptance, Acceptance):
            raise ConfigError(
                f"acceptance {acceptance!r} is not an Acceptance; write "
                "Acceptance('typical', {'delta': 0.3})",
                param="acceptance",
            )
        origin = Origin("api", "argument acceptance")
        given["law"] = Value(acceptance.law, origin)
        given["law_option"] = Value(dict(acceptance.options), origin)
    law = merge_law_layers([{name: item for name, item in given.items() if _is_law(name)}])
    return _build(given, law, os.environ, None).engine


def read_setting(name: str, raw: object, origin: Origin) -> Value:
    """Return one setting, checked.

    Raises:
        ConfigError: the value is not allowed; names it and its origin.
    """
    setting = SETTINGS[name]
    try:
        return Value(setting.reader(raw), origin)
    except ValueError as reason:
        shown = "(hidden)" if setting.is_secret else repr(raw)
        raise ConfigError(f"{name} {shown} (from {origin}) {reason}", param=name) from None


def _is_law(name: str) -> bool:
    return SETTINGS[name].group == "law" and name not in LIMIT_NAMES


def _law_layers(layers: Sequence[_Raw]) -> Iterator[dict[str, Value]]:
    """Yield the law settings of each layer; a layer that nobody asks for is not even checked."""
    for layer in layers:
        yield {name: read_setting(name, *layer[name]) for name in layer if _is_law(name)}


def _base_dir(env: Mapping[str, str], variable: str, fallback: str) -> Path:
    given = env.get(variable, "").strip()
    return Path(given) if given else Path.home() / fallback


def _find_file(given: Path | str | None, env: Mapping[str, str], cwd: Path) -> Path | None:
    named = [(given, "--config"), (env.get(CONFIG_ENV), CONFIG_ENV)]
    for path, origin in named:
        if path:
            found = Path(path).expanduser()
            if not found.is_file():
                raise ConfigError(
                    f"configuration file {str(path)!r} (from {origin}) is not a file; "
                    "name an existing TOML file or drop it"
                )
            return found
    local = cwd / CONFIG_NAME
    if local.is_file():
        return local if cwd != Path.cwd() else Path(CONFIG_NAME)
    own = _base_dir(env, "XDG_CONFIG_HOME", ".config") / "leeway" / "config.toml"
    return own if own.is_file() else None


def _file_layer(file: Path | None) -> dict[str, tuple[object, Origin]]:
    if file is None:
        return {}
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as reason:
        raise ConfigError(f"configuration file {file} cannot be read as TOML: {reason}") from None
    layer: dict[str, tuple[object, Origin]] = {}
    for key, value in content.items():
        if key not in SETTINGS:
            hint = did_you_mean(key, SETTINGS)
            raise ConfigError(
                f"unknown key {key!r} in {file}{hint}; `leeway config show` lists all", param=key
            )
        layer[key] = (value, Origin("file", f"{file}: {key}"))
    return layer


def env_layer(env: Mapping[str, str]) -> dict[str, tuple[object, Origin]]:
    """Return the raw settings that the environment gives, by name.

    Raises:
        ConfigError: a `LEEWAY_` variable names no setting.
    """
    known = {setting.env: name for name, setting in SETTINGS.items()}
    layer: dict[str, tuple[object, Origin]] = {}
    for variable in sorted(env):
        if not variable.startswith(ENV_PREFIX) or variable == CONFIG_ENV or not env[variable]:
            continue
        if variable not in known:
            hint = did_you_mean(variable, [*known, CONFIG_ENV])
            raise ConfigError(
                f"unknown environment variable {variable!r}{hint}; `leeway config show` lists all"
            )
        layer[known[variable]] = (env[variable], Origin("env", variable))
    if env.get("NO_COLOR"):
        layer.setdefault("no_color", (True, Origin("env", "NO_COLOR")))
    return layer


def _build(
    given: Mapping[str, Value], law: LawSettings, env: Mapping[str, str], file: Path | None
) -> Config:
    given = {**given, **law.values}
    values = {
        name: given.get(name, Value(setting.default, DEFAULT_ORIGIN))
        for name, setting in SETTINGS.items()
    }
    if values["cache_dir"].value is None:
        values["cache_dir"] = Value(default_cache_dir(env), values["cache_dir"].origin)
    resolve_drafter(values)
    check_server(values)
    chosen = resolve_acceptance(values, law.options)
    origins: dict[str, Origin] = {name: value.origin for name, value in values.items()}
    origins |= {f"acceptance.{key}": origin for key, origin in chosen.option_origins.items()}
    origins |= {"acceptance": chosen.origin, "kv_memory_bytes": origins["kv_memory"]}
    plain = cast(dict[str, Any], {name: value.value for name, value in values.items()})
    same_name = [name for name in EngineConfig.__dataclass_fields__ if name in plain]
    engine = EngineConfig(
        **{name: plain[name] for name in same_name},
        kv_memory_bytes=plain["kv_memory"],
        acceptance=chosen.acceptance,
        limits=limits_of(plain),
        origins=MappingProxyType(origins),
    )
    server = ServerConfig(
        engine=engine,
        **{name: plain[name] for name in ServerConfig.__dataclass_fields__ if name in plain},
        origins=MappingProxyType(origins),
    )
    in_group = {name for name, setting in SETTINGS.items() if setting.group == "sampling"}
    sampling = SamplingParams(**{name: plain[name] for name in in_group})
    return Config(server, sampling, MappingProxyType(values), file)


__all__ = [
    "Config",
    "EngineConfig",
    "Layer",
    "Origin",
    "ServerConfig",
    "Value",
    "default_cache_dir",
    "engine_config",
    "resolve",
]
