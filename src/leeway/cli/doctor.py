"""`leeway doctor`: what machine this is, what is cached, and with `--bench` what a step costs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from leeway.cli.call import Call, Screen
from leeway.cli.options import MODEL_NAME, takes_settings
from leeway.core.config_values import format_size
from leeway.core.errors import ConfigError

if TYPE_CHECKING:
    from leeway.bench.machine import Machine
    from leeway.core.config import Config


@takes_settings("model", "drafting", "law")
def doctor(
    call: Call,
    model_name: Annotated[str | None, MODEL_NAME] = None,
    /,
    *,
    bench: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Load the model and measure forwards, prefill, loading, memory and overhead.",
        ),
    ] = False,
    rounds: Annotated[
        int, Parameter(metavar="N", help="Measurements of each forward with --bench.")
    ] = 30,
) -> None:
    """Show what speed depends on here: processor, memory, load, versions, cached models."""
    config, screen = call.with_model(model_name).resolve()
    from leeway.bench.machine import read_load, read_machine

    if rounds < 3:
        raise ConfigError(f"rounds {rounds} is too few for a median; give 3 or more")
    machine, load = read_machine(), read_load()
    report: dict[str, Any] = {
        "machine": asdict(machine),
        "load": load,
        "cache_dir": str(config.engine.cache_dir),
        "models": _cached_models(config),
    }
    if not screen.is_json:
        _print_machine(machine, load, report["models"], config, screen)
    if bench:
        from leeway.cli.doctor_bench import print_bench, run_bench

        report["bench"] = run_bench(config, screen, rounds)
        if not screen.is_json:
            print_bench(report["bench"], screen)
    if screen.is_json:
        screen.print_json(report)


def _cached_models(config: Config) -> list[dict[str, Any]]:
    from leeway.models.catalogue import CATALOGUE, cached_path, is_cached

    cache_dir = config.engine.cache_dir
    return [
        {
            "name": entry.name,
            "is_cached": is_cached(entry, cache_dir),
            "path": str(cached_path(entry, cache_dir)),
        }
        for entry in CATALOGUE
    ]


def _print_machine(
    machine: Machine,
    load: tuple[float, float, float] | None,
    models: list[dict[str, Any]],
    config: Config,
    screen: Screen,
) -> None:
    from rich.table import Table

    features = machine.cpu_features
    has = [name for name, present in features.items() if present]
    lacks = [name for name, present in features.items() if present is False]
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("processor", machine.cpu_model)
    table.add_row("has", ", ".join(has) or "unknown")
    table.add_row("lacks", ", ".join(lacks) or "-")
    table.add_row("threads", f"{machine.usable_threads} usable of {machine.num_threads}")
    if machine.total_memory_bytes is not None and machine.available_memory_bytes is not None:
        free, total = machine.available_memory_bytes, machine.total_memory_bytes
        table.add_row("memory", f"{format_size(free)} available of {format_size(total)}")
    table.add_row("load", _describe_load(load))
    table.add_row("system", machine.system)
    versions = ", ".join(f"{name} {number}" for name, number in machine.versions.items())
    table.add_row("versions", versions)
    cached = [model["name"] for model in models if model["is_cached"]]
    table.add_row("cached", f"{', '.join(cached) or 'no model'} in {config.engine.cache_dir}")
    screen.out().print(table)


def _describe_load(load: tuple[float, float, float] | None) -> str:
    if load is None:
        return "unknown"
    return ", ".join(f"{value:.2f}" for value in load) + " (1, 5, 15 minutes)"
