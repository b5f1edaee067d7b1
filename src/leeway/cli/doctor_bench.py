"""`leeway doctor --bench`: what to measure, and the tables that show it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from leeway.cli.call import Screen
from leeway.cli.loading import check_early, progress
from leeway.core.config import Config
from leeway.core.config_values import format_size
from leeway.core.types import Acceptance, Request, SamplingParams

if TYPE_CHECKING:
    from leeway.engine.engine import Engine

_TEXT = """The harbour keeps a ledger of every boat that enters: its name, its length, the hour
and the height of the tide. Old entries are in ink, new ones are typed, and between them lies a
decade of pencil that only the harbour master can read. When two boats arrive together the one
with the deeper keel goes first, because the channel silts up and the pilot would rather wait than
dredge. On calm evenings the ledger is closed early and the lamps along the mole are lit by hand.
"""
_CELLS = ((1, 512), (2, 512), (4, 512), (1, 4096), (4, 4096))
_SHOWN = ("weights", "kv_cache", "row_shape", "INFERENCE_PRECISION_HINT", "INFERENCE_NUM_THREADS")
_PROMPT_LEN = 512
_FIRST_TOKEN_PROMPT_LEN = 16
_STEP_PROMPT_LEN = 256
_SAMPLINGS = (
    ("T=0", SamplingParams(temperature=0.0)),
    ("T=0.8 k20 p.95", SamplingParams(temperature=0.8, top_k=20, top_p=0.95)),
    ("T=1 full", SamplingParams(temperature=1.0)),
)
_LAWS = (Acceptance("rejection"), Acceptance("typical", {"delta": 0.3}))


def run_bench(config: Config, screen: Screen, num_rounds: int) -> dict[str, Any]:
    """Load the model, measure everything and return it with definitions and the load around it."""
    check_early(config)
    started = time.perf_counter()
    from leeway.bench import step_cost
    from leeway.bench.machine import read_load, read_peak_memory_bytes
    from leeway.engine.load import load_engine

    load_before = read_load()
    with progress(screen) as on_progress:
        engine = load_engine(config.engine, on_progress)
    load_s = time.perf_counter() - started
    text_ids = engine.parts.tokenizer.encode(_TEXT, add_special=False)
    _decode_one(engine, text_ids[:_FIRST_TOKEN_PROMPT_LEN])
    first_token_s = time.perf_counter() - started
    loaded_bytes = read_peak_memory_bytes()
    backend = engine.parts.backend
    say = _make_say(screen)
    say("forwards")
    room = min(backend.context_len, backend.capacity_tokens // 2)
    fitting = [step_cost.ForwardCell(*cell) for cell in _CELLS if sum(cell) <= room]
    forwards = step_cost.measure_forwards(backend, fitting, text_ids, num_rounds)
    say("prefill")
    few_rounds = max(3, num_rounds // 5)
    prompt_len = min(_PROMPT_LEN, room)
    prefill = step_cost.measure_prefill(backend, prompt_len, text_ids, few_rounds)
    say("verify steps")
    prompt_ids = (text_ids * _STEP_PROMPT_LEN)[: min(_STEP_PROMPT_LEN, room // 2)]
    steps = step_cost.measure_steps(engine, _SAMPLINGS, _LAWS, prompt_ids, few_rounds)
    return {
        "definitions": step_cost.DEFINITIONS,
        "model": engine.parts.model_name,
        "backend": {key: _plain(value) for key, value in backend.describe().items()},
        "drafter": engine.parts.drafter.name,
        "num_speculative_tokens": config.engine.num_speculative_tokens,
        "load_before": load_before,
        "load_after": read_load(),
        "load_s": load_s,
        "load_to_first_token_s": first_token_s,
        "peak_memory_after_load_bytes": loaded_bytes,
        "peak_memory_bytes": read_peak_memory_bytes(),
        "forwards": [asdict(cell) | asdict(forwards[cell]) for cell in fitting],
        "cells_left_out": [list(cell) for cell in _CELLS if sum(cell) > room],
        "prefill_len": prompt_len,
        "prefill_tokens_per_s": asdict(prefill),
        "steps": [asdict(cell) for cell in steps],
    }


def print_bench(report: dict[str, Any], screen: Screen) -> None:
    """Print the tables and the definitions."""
    from rich.table import Table

    out = screen.out()
    out.print()
    settings = [f"{key} {report['backend'][key]}" for key in _SHOWN if key in report["backend"]]
    out.print(f"{report['model']} ({', '.join(settings)})", style="bold")
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_row("load", f"{report['load_s']:.2f} s")
    table.add_row("load to first token", f"{report['load_to_first_token_s']:.2f} s")
    if report["peak_memory_bytes"] is not None:
        peaks = (report["peak_memory_after_load_bytes"], report["peak_memory_bytes"])
        after_load, peak = (format_size(value) for value in peaks)
        table.add_row("peak memory", f"{peak} ({after_load} after the first token)")
    prefill = _spread(report["prefill_tokens_per_s"], 1, 0, "tokens/s")
    table.add_row(f"prefill of {report['prefill_len']}", prefill)
    out.print(table)
    _print_forwards(report, screen)
    _print_steps(report, screen)
    out.print()
    for name, definition in report["definitions"].items():
        out.print(f"{name}: {definition}", style="dim")
    loads = [report["load_before"], report["load_after"]]
    if all(loads):
        before, after = (f"{load[0]:.2f}" for load in loads)
        out.print(f"machine load (1 minute): {before} before, {after} after")


def _print_forwards(report: dict[str, Any], screen: Screen) -> None:
    from rich import box
    from rich.table import Table

    out = screen.out()
    for num_rows, context_len in report["cells_left_out"]:
        out.print(
            f"left out: {num_rows} rows at {context_len}: more than half the cache or context"
        )
    cells = report["forwards"]
    if not cells:
        return
    base = cells[0]["steady"]["median"]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    titles = (
        "rows",
        "context",
        "steady ms",
        "least",
        "most",
        "n",
        "of one at 512",
        "first ms",
        "n",
    )
    for title in titles:
        table.add_column(title, justify="right")
    for cell in cells:
        steady, first = cell["steady"], cell["first"]
        times = [f"{steady[key] * 1e3:.2f}" for key in ("median", "least", "most")]
        table.add_row(
            str(cell["num_rows"]),
            str(cell["context_len"]),
            *times,
            str(steady["n"]),
            f"{steady['median'] / base:.2f}",
            f"{first['median'] * 1e3:.2f}",
            str(first["n"]),
        )
    out.print(table)
    for num_rows, context_len in report["cells_left_out"]:
        out.print(
            f"left out: {num_rows} rows at {context_len}: more than half the cache or context"
        )


def _print_steps(report: dict[str, Any], screen: Screen) -> None:
    from rich import box
    from rich.table import Table

    if not report["steps"]:
        screen.out().print(
            "verify steps left out: the self-check at load declined blocks of drafts"
        )
        return
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        header_style="bold",
        title=f"verify steps of {report['num_speculative_tokens']} draft tokens "
        f"({report['drafter']}): medians",
        title_justify="left",
    )
    for title in ("sampling", "law"):
        table.add_column(title)
    for title in ("step\nms", "forward\nms", "overhead\nms", "share", "least", "most", "n"):
        table.add_column(title, justify="right", no_wrap=True)
    for cell in report["steps"]:
        law = (
            cell["law"] if cell["law"] == cell["engaged"] else f"{cell['law']} → {cell['engaged']}"
        )
        times = [
            f"{cell[key]['median'] * 1e3:.2f}" for key in ("step_s", "forward_s", "overhead_s")
        ]
        share = cell["overhead_rate"]
        shares = [f"{share[key]:.1%}" for key in ("median", "least", "most")]
        table.add_row(cell["sampling"], law, *times, *shares, str(share["n"]))
    screen.out().print(table)


def _spread(samples: dict[str, Any], scale: float, digits: int, unit: str) -> str:
    median, least, most = (samples[key] * scale for key in ("median", "least", "most"))
    return (
        f"{median:.{digits}f} {unit} (median of {samples['n']}; "
        f"{least:.{digits}f} to {most:.{digits}f})"
    )


def _plain(value: object) -> str:
    """Return a setting as text; the backend's own types come as `<Type: 'bfloat16'>`."""
    return str(value).removeprefix("<Type: '").removesuffix("'>")


def _make_say(screen: Screen) -> Callable[[str], None]:
    return lambda what: screen.note(f"measuring {what} ...") if screen.is_live else None


def _decode_one(engine: Engine, prompt_ids: list[int]) -> None:
    sampling = SamplingParams(temperature=0.0, max_tokens=1, ignore_eos=True)
    engine.add(Request("first", tuple(prompt_ids), sampling))
    while engine.has_work:
        for delta in engine.step():
            if delta.error is not None:
                raise delta.error
