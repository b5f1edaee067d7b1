"""Health: whether the server can answer, and which law was asked for, installed and engaged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, fields
from importlib.metadata import version
from typing import Any

from leeway.acceptance.base import Law
from leeway.acceptance.law_ceiling import LawCeiling
from leeway.core.config import ServerConfig
from leeway.core.config_settings import SETTINGS
from leeway.core.receipt import Tally
from leeway.engine.log_line import CASCADES, TYPICAL
from leeway.server.host_check import allowed_hosts
from leeway.server.service_protocol import ServedEngine, Service

PACKAGE_VERSION = version("leeway-llm")


def health_body(
    service: Service, config: ServerConfig, ceiling: LawCeiling, law: Law
) -> dict[str, Any]:
    """Return what /health says; `status` is the service's state, `law` the configured one."""
    body: dict[str, Any] = {
        "status": service.state,
        "version": PACKAGE_VERSION,
        "model": config.engine.model,
    }
    if service.state == "failed":
        body["error"] = str(service.error)
    engine = service.engine if service.state in ("ready", "draining") else None
    totals = dict(engine.totals) if engine is not None else {}
    body["settings"] = _settings(config)
    body["acceptance"] = _acceptance(config, ceiling, engine, totals)
    body["typical_acceptance"] = _family(law, ceiling, TYPICAL, totals)
    body["cascade_acceptance"] = _family(law, ceiling, CASCADES, totals)
    if engine is not None:
        body["model"] = engine.parts.model_name
        body["drafter"] = {
            "requested": config.engine.drafter,
            "engaged": engine.parts.drafter.name,
            "num_speculative_tokens": config.engine.num_speculative_tokens,
            "draft_length": config.engine.draft_length,
            "draft_temperature": config.engine.draft_temperature,
        }
        if engine.parts.drafter_settings:
            body["drafter"]["head"] = dict(engine.parts.drafter_settings)
        body["backend"] = engine.parts.backend.describe()
        if engine.parts.self_check is not None:
            body["self_check"] = engine.parts.self_check.describe()
        body["load"] = engine.status()
    return body


def _settings(config: ServerConfig) -> dict[str, Any]:
    """Return the settings in force with their origins, but for the key and where files lie."""
    engine = config.engine
    values: dict[str, Any] = {
        **{one.name: getattr(engine, one.name) for one in fields(engine)},
        **{one.name: getattr(config, one.name) for one in fields(config)},
        **asdict(engine.limits),
        "kv_memory": engine.kv_memory_bytes,
        "allowed_hosts": allowed_hosts(config),
    }
    return {
        name: {"value": values[name], "origin": str(config.origin(name))}
        for name, setting in SETTINGS.items()
        if name in values and setting.metavar != "PATH" and not setting.is_secret
    }


def _acceptance(
    config: ServerConfig,
    ceiling: LawCeiling,
    engine: ServedEngine | None,
    totals: dict[tuple[str, str], Tally],
) -> dict[str, Any]:
    """Return requested (with origin), installed (the law object) and engaged (what judged)."""
    asked = config.engine.acceptance
    installed = None
    if engine is not None:
        installed = {
            "law": engine.law.info.name,
            "options": dict(engine.law.options),
            "guarantee": engine.law.info.guarantee,
            "verifier": engine.law.verifier,
        }
    engaged = [
        {
            "law": law,
            "drafter": drafter,
            "guarantee": ceiling.infos[law].guarantee,
            **_numbers([tally]),
        }
        for (law, drafter), tally in totals.items()
    ]
    return {
        "requested": {
            "law": asked.law,
            "options": dict(asked.options),
            "origin": str(config.engine.origin("acceptance")),
        },
        "installed": installed,
        "engaged": engaged,
        "allowed_per_request": list(ceiling.allowed),
        "limits": asdict(config.engine.limits),
    }


def _family(
    law: Law,
    ceiling: LawCeiling,
    family: tuple[str, ...],
    totals: dict[tuple[str, str], Tally],
) -> dict[str, Any]:
    """Return the block of typical acceptance or of the cascades."""
    is_enabled = law.info.name in family
    note = "off: no request is judged by it unless the request asks and the server allows it"
    if is_enabled:
        note = f"NOT distribution-exact: {law.info.summary}"
    return {
        "enabled": is_enabled,
        "rule": law.info.name if is_enabled else None,
        **(law.options if is_enabled else {}),
        "guarantee": "none",
        "note": note,
        "allowed_per_request": [name for name in family if name in ceiling.allowed],
        **_numbers(tally for (name, _), tally in totals.items() if name in family),
    }


def _numbers(tallies: Iterable[Tally]) -> dict[str, Any]:
    """Return counts, rates and loss of several tallies together."""
    total = Tally()
    for tally in tallies:
        total.add(tally)
    return {**total.counts(), **total.rates(), "loss": total.loss()}
