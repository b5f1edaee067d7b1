"""What `leeway bench load` does behind its flags: find or start a server, measure, show."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from leeway.bench.http_stream import get_json
from leeway.bench.identity import source_digest
from leeway.bench.load_report import level_rows
from leeway.bench.load_run import Level, LoadPlan, measure_levels, wake
from leeway.bench.server_process import free_port, running
from leeway.bench.traffic import DEFINITIONS, LevelSummary
from leeway.bench.url_arm import model_names
from leeway.bench.url_spec import UrlSpec, parse_url
from leeway.cli.bench_table import print_rows
from leeway.cli.call import Call, Screen, to_json
from leeway.core.config import Config
from leeway.core.config_settings import SETTINGS
from leeway.core.errors import ConfigError

OK, INTERRUPTED = 0, 130
SUMMARY = "summary.json"
_SERVED = ("law", "drafting", "model")
_NOT_SERVED = ("api_key", "api_key_file", "tls_cert")
_START = "import sys; from leeway.cli.main import main; sys.exit(main())"
_LATE_S = 0.05
_PROBE_TIMEOUT_S = 30.0


def read_levels(concurrency: str | None, request_rate: str | None) -> list[Level]:
    """Return the levels that were typed: closed loops, then rates.

    Raises:
        ConfigError: a number is none, or not above 0.
    """
    levels = []
    for word in concurrency.split(",") if concurrency is not None else ():
        is_good = word.strip().isdecimal() and int(word) > 0
        if not is_good:
            raise ConfigError(f"--concurrency holds {word!r}; give numbers above 0, like 1,2,4")
        levels.append(Level(num_clients=int(word)))
    for word in request_rate.split(",") if request_rate is not None else ():
        try:
            rate = float(word)
        except ValueError:
            rate = 0.0
        if not 0 < rate < float("inf"):
            raise ConfigError(f"--request-rate holds {word!r}; give numbers above 0, like 0.5,2")
        levels.append(Level(rate=rate))
    return levels


@contextmanager
def server(
    call: Call, config: Config, url: str | None, screen: Screen
) -> Iterator[tuple[UrlSpec, dict[str, Any]]]:
    """Give the server, and what identifies it; one that is started ends with the `with`."""
    typed = {name: value for name, value in call.flags.items() if _is_served(name)}
    if url is not None:
        if typed:
            name = next(iter(typed))
            raise ConfigError(
                f"{SETTINGS[name].flag} says how to serve and --url names a server that runs; "
                "drop one of them",
                param=name,
            )
        spec = parse_url(f"url:{url}")
        if ",send=" in url:
            raise ConfigError("--url takes no send=: conversations go to chat, texts as they are")
        try:
            names = model_names(get_json(spec.url + "/models", _PROBE_TIMEOUT_S))
        except OSError as reason:
            raise ConfigError(
                f"--url {spec.url!r} does not answer ({reason}); start the server or correct it"
            ) from None
        if spec.model is None and names:
            spec = replace(spec, model=names[0])
        yield spec, {"server": {"definition": spec.text.replace(",send=tokens", "")}}
        return
    for name in _NOT_SERVED:
        if config.values[name].value is not None:
            raise ConfigError(
                f"{name} (from {config.values[name].origin}) is set, and a server started for a "
                "load test asks for no key and speaks plain HTTP; unset it",
                param=name,
            )
    port = free_port()
    spec = UrlSpec("leeway", f"http://127.0.0.1:{port}/v1")
    screen.note(f"starting a server at {spec.url}")
    with running("the server", serve_command(call, port), spec.url):
        yield spec, {"server": _own_facts(config)}


def serve_command(call: Call, port: int) -> list[str]:
    """Return the command that serves with the settings typed, on this port."""
    words = [sys.executable, "-c", _START]
    if call.config_path is not None:
        words += ["--config", call.config_path]
    words += ["serve", "--host", "127.0.0.1", "--port", str(port)]
    for name, value in call.flags.items():
        if _is_served(name):
            flag = SETTINGS[name].flag
            if SETTINGS[name].is_switch:
                words += [flag] if value else []
            else:
                for one in value if isinstance(value, list | tuple) else (value,):
                    words += [f"{flag}={one}"]
    return words


def _is_served(name: str) -> bool:
    return SETTINGS[name].group in _SERVED


def _own_facts(config: Config) -> dict[str, Any]:
    settings = {
        name: SETTINGS[name].show(item.value)
        for name, item in sorted(config.values.items())
        if _is_served(name)
    }
    return {
        "version": metadata.version("leeway-llm"),
        "source_sha256": source_digest(),
        "settings": settings,
    }


def measure(
    spec: UrlSpec,
    plan: LoadPlan,
    levels: Sequence[Level],
    identity: dict[str, Any],
    *,
    out: Path | None,
    screen: Screen,
    command: str | None = None,
) -> int:
    """Measure the levels, show them, and return the exit code.

    Raises:
        ConfigError: the first request fails, or the folder holds another run.
    """
    wake(spec, plan)
    done: list[LevelSummary] = []
    is_interrupted = False

    def say(level: Level) -> None:
        screen.note(f"{level.text}: {plan.num_requests} requests")

    try:
        done.extend(
            measure_levels(spec, plan, levels, identity, folder=out, on_level=say, command=command)
        )
    except KeyboardInterrupt:
        is_interrupted = True
        screen.note("interrupted: levels that are not whole are left out")
    _show(done, identity, out, screen)
    return INTERRUPTED if is_interrupted else OK


def _show(
    done: Sequence[LevelSummary], identity: dict[str, Any], out: Path | None, screen: Screen
) -> None:
    report = {
        "definitions": DEFINITIONS,
        "identity": identity,
        "levels": [asdict(one) for one in done],
    }
    if out is not None:
        (out / SUMMARY).write_text(to_json(report) + "\n", encoding="utf-8")
    if screen.is_json:
        screen.print_json(report)
        return
    if not done:
        screen.note("nothing was measured")
        return
    console = screen.out()
    print_rows(level_rows(done), console)
    for one in done:
        if one.late_s > _LATE_S:
            console.print(
                f"! {one.load}: this client began requests up to {1000 * one.late_s:.0f} ms late",
                style="yellow",
            )
        for words, num in one.errors.items():
            console.print(f"! {one.load}: {num} failed: {words}", style="yellow")
    if not screen.is_quiet:
        for name, meaning in DEFINITIONS.items():
            console.print(f"{name}: {meaning}", style="dim")
