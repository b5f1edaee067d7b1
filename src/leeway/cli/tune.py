"""`leeway tune`: measure how long to draft here, and write the winner to the configuration file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from leeway.cli.call import Call, Screen
from leeway.cli.options import MODEL_NAME, takes_settings
from leeway.core.config import CONFIG_NAME, Config
from leeway.core.config_file import NewValue, save_settings
from leeway.core.config_settings import SETTINGS
from leeway.core.errors import ConfigError

if TYPE_CHECKING:
    from leeway.bench.tune import LengthResult, Tuning

_CHOSEN_HERE = ("num_speculative_tokens", "draft_length", "draft_cost")
_MEASURED_UNDER = ("model", "drafting", "law", "sampling")
_PROMPTS = Parameter(
    metavar="FILE", help="Prompts as JSON lines, instead of a few of the project's own."
)
_MAX_TOKENS = 64
_NUM_PROMPTS = 4
_BUSY_SHARE = 0.5
_COST_DIGITS = 4


@takes_settings("model", "drafting", "law", "sampling")
def tune(
    call: Call,
    model_name: Annotated[str | None, MODEL_NAME] = None,
    /,
    *,
    max_depth: Annotated[
        int, Parameter(metavar="N", help="Longest draft to measure, in tokens.")
    ] = 5,
    seeds: Annotated[int, Parameter(metavar="N", help="Seeds that every arm runs with.")] = 5,
    prompts: Annotated[Path | None, _PROMPTS] = None,
    dry_run: Annotated[
        bool,
        Parameter(negative="", show_default=False, help="Measure and print, but write nothing."),
    ] = False,
) -> None:
    """Measure plain decoding, each draft length and adaptive drafting; save what is fastest.

    Runs the law, sampler and drafter in force, one request at a time, arms interleaved, and writes
    num_speculative_tokens, draft_length and draft_cost to the configuration file in force
    (./leeway.toml where there is none). Nothing is written unless the whole interval of the
    winner's speed lies above plain decoding. Max tokens is 64 unless given. Takes some minutes.
    """
    config, screen = call.with_model(model_name).resolve()
    _check(call, config, max_depth, seeds)
    from leeway.bench.machine import read_load

    load_before = read_load()
    tuning, facts = _measure(config, screen, max_depth, seeds, prompts)
    values = _values(tuning)
    file = config.file or Path(CONFIG_NAME)
    is_saved = bool(values) and not dry_run
    if is_saved:
        save_settings(file, values)
    report: dict[str, Any] = {
        **facts,
        **_outcome(tuning),
        "load_before": load_before,
        "load_after": read_load(),
        "is_busy": _is_busy(load_before),
        "settings": values,
        "saved_to": str(file) if is_saved else None,
    }
    if screen.is_json:
        screen.print_json(report)
    else:
        _print(report, tuning, screen)
        for line in (*_verdict(tuning, values, file, dry_run), *_caveats(config, values)):
            screen.out().print(line)


def _outcome(tuning: Tuning) -> dict[str, Any]:
    """Return what was measured, for machines."""
    return {
        "arms": [_as_json(result) for result in tuning.results],
        "draft_cost": tuning.draft_cost,
        "winner": tuning.winner.arm.name if tuning.winner else None,
    }


def _check(call: Call, config: Config, max_depth: int, num_seeds: int) -> None:
    """Refuse what makes no sense before anything slow is begun."""
    for name in _CHOSEN_HERE:
        if name in call.flags:
            raise ConfigError(
                f"{SETTINGS[name].flag} is what tune chooses; drop it (--max-depth bounds the "
                "lengths that are measured)",
                param=name,
            )
    if "seed" in call.flags:
        raise ConfigError("--seed does nothing here; tune runs seeds 1 to --seeds", param="seed")
    if "prefix_cache" in call.flags and config.engine.prefix_cache == "on":
        raise ConfigError(
            "--prefix-cache on does nothing here; tune reads every prompt in full, drop it",
            param="prefix_cache",
        )
    if not 1 <= max_depth <= 32:
        raise ConfigError(f"--max-depth {max_depth} is out of range; give 1 to 32")
    if num_seeds < 3:
        raise ConfigError(f"--seeds {num_seeds} is too few for an interval; give 3 or more")
    if config.engine.drafter == "none":
        raise ConfigError(
            f"drafter 'none' (from {config.engine.origin('drafter')}) leaves nothing to tune; "
            "give --drafter or --draft-model",
            param="drafter",
        )


def _measure(
    config: Config, screen: Screen, max_depth: int, num_seeds: int, prompts: Path | None
) -> tuple[Tuning, dict[str, Any]]:
    """Load the model, run every arm, and return what was found and under what."""
    from leeway.bench import tune as bench
    from leeway.bench.default_workload import SOURCES
    from leeway.bench.workload import encode, read_sources
    from leeway.cli.loading import load_llm, naming_origins

    sources = SOURCES[:_NUM_PROMPTS] if prompts is None else read_sources(prompts)
    engine = replace(config.engine, num_speculative_tokens=max_depth, prefix_cache="off")
    config = replace(config, server=replace(config.server, engine=engine))
    is_given = config.values["max_tokens"].is_given
    sampling = replace(
        config.sampling, max_tokens=config.sampling.max_tokens if is_given else _MAX_TOKENS
    )
    total = bench.num_runs(len(sources), max_depth, num_seeds)
    with load_llm(config, screen) as llm, naming_origins(config):
        parts = llm.engine.parts
        encoded = encode(sources, parts.tokenizer, parts.chat_template)
        with _bar(screen, total) as advance:
            tuning = bench.tune(
                llm,
                [prompt.token_ids for prompt in encoded],
                sampling,
                max_depth=max_depth,
                num_seeds=num_seeds,
                on_run=advance,
            )
        engaged = tuning.results[-1].receipt
        assert engaged is not None
        facts = {
            "definitions": bench.DEFINITIONS,
            "model": parts.model_name,
            "drafter": parts.drafter.name,
            "law": engaged.law,
            "requested_law": engaged.requested_law,
            "options": dict(engaged.options),
            "guarantee": engaged.guarantee,
            "temperature": sampling.temperature,
            "top_k": sampling.top_k,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
            "num_prompts": len(sources),
            "num_seeds": num_seeds,
        }
    return tuning, facts


def _values(tuning: Tuning) -> dict[str, NewValue]:
    """Return the settings to write; none where nothing beat plain decoding."""
    winner = tuning.winner
    if winner is None:
        return {}
    values: dict[str, NewValue] = {
        "num_speculative_tokens": winner.arm.num_speculative_tokens,
        "draft_length": "adaptive" if winner.arm.is_adaptive else "fixed",
    }
    if tuning.draft_cost is not None:
        values["draft_cost"] = round(tuning.draft_cost, _COST_DIGITS)
    return values


def _as_json(result: LengthResult) -> dict[str, Any]:
    from leeway.bench.samples import Samples

    tally, rates = result.tally, result.tally.rates()
    assert result.ratio is not None
    return {
        "name": result.arm.name,
        "num_speculative_tokens": result.arm.num_speculative_tokens,
        "draft_length": "adaptive" if result.arm.is_adaptive else "fixed",
        "tokens_per_s": asdict(Samples.of(result.speeds)),
        "tokens_per_s_by_seed": result.speeds,
        "plain_ratio": asdict(result.ratio),
        "is_faster_than_plain": result.is_faster,
        "tokens_per_verify_step": rates["tokens_per_verify_step"],
        "drafted_per_verify_step": tally.num_draft_tokens / tally.num_verify_steps,
        "draft_acceptance_rate": rates["draft_acceptance_rate"],
        "accepted_by_depth": tally.accepted_by_depth,
        "drafted_by_depth": tally.drafted_by_depth,
        "output_tokens": tally.num_output_tokens,
        "loss": tally.loss(),
    }


@contextmanager
def _bar(screen: Screen, total: int) -> Iterator[Callable[[], None]]:
    """Give what is to be called behind each request; on a terminal it draws a bar."""
    if not screen.is_live:
        yield lambda: None
        return
    from leeway.cli.loading import counting_bars

    with counting_bars(screen, is_transient=True) as shown:
        task = shown.add_task("measuring", total=total)
        yield lambda: shown.advance(task)


def _is_busy(load: tuple[float, float, float] | None) -> bool | None:
    """Return whether much else was running before the measurement; None where nobody says."""
    from leeway.bench.machine import read_machine

    return None if load is None else load[0] > _BUSY_SHARE * read_machine().usable_threads


def _print(report: dict[str, Any], tuning: Tuning, screen: Screen) -> None:
    from rich import box
    from rich.table import Table

    out = screen.out()
    options = "".join(f", {key} {value}" for key, value in report["options"].items())
    out.print(
        f"{report['model']}, {report['drafter']} drafts, law {report['law']}{options}, "
        f"temperature {report['temperature']:g}, top-k {report['top_k']}, top-p "
        f"{report['top_p']:g}; {report['num_prompts']} prompts, {report['num_seeds']} seeds, up "
        f"to {report['max_tokens']} tokens each, one at a time"
    )
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("arm", no_wrap=True)
    for title in ("tokens/s", "x plain", "tokens/step", "drafted", "accepted"):
        table.add_column(title, justify="right", no_wrap=True)
    for result, arm in zip(tuning.results, report["arms"], strict=True):
        ratio, rate = arm["plain_ratio"], arm["draft_acceptance_rate"]
        is_plain = result.arm.num_speculative_tokens == 0
        interval = "" if is_plain else f" ({ratio['low']:.2f}-{ratio['high']:.2f})"
        table.add_row(
            arm["name"],
            f"{arm['tokens_per_s']['median']:.1f}",
            f"{ratio['value']:.2f}{interval}",
            f"{arm['tokens_per_verify_step']:.2f}",
            f"{arm['drafted_per_verify_step']:.2f}",
            "-" if rate is None else f"{rate:.2f}",
        )
    out.print(table)
    cost = report["draft_cost"]
    out.print(f"draft_cost: {'could not be told' if cost is None else f'{cost:.3f}'}")
    if not screen.is_quiet:
        for name, meaning in report["definitions"].items():
            out.print(f"{name}: {meaning}", style="dim")
    if report["is_busy"]:
        out.print(
            f"The machine was busy (load {report['load_before'][0]:.1f} before the measurement): "
            "the ratios are paired and hold better than the speeds, but a quiet run is better."
        )


def _verdict(
    tuning: Tuning, values: dict[str, NewValue], file: Path, is_dry: bool
) -> Iterator[str]:
    """Yield the lines that say what won and what was written where."""
    winner = tuning.winner
    if winner is None:
        yield "Nothing beat plain decoding; nothing saved."
        return
    assert winner.ratio is not None and winner.ratio.low is not None
    assert winner.ratio.high is not None
    yield (
        f"Fastest: {winner.arm.name}, {winner.ratio.value:.2f} times plain decoding "
        f"({winner.ratio.low:.2f}-{winner.ratio.high:.2f})."
    )
    yield f"Would be written to {file}:" if is_dry else f"Written to {file}:"
    for name, value in values.items():
        yield f"  {name} = {SETTINGS[name].show(value)}"


def _caveats(config: Config, values: dict[str, NewValue]) -> Iterator[str]:
    """Yield what keeps the file from having the effect that was measured."""
    if not values:
        return
    for name in values:
        origin = config.values[name].origin
        if origin.layer == "env":
            yield f"Note: {origin} is set and beats the file; unset it."
    typed = [
        str(item.origin)
        for name, item in config.values.items()
        if SETTINGS[name].group in _MEASURED_UNDER
        and name not in _CHOSEN_HERE
        and item.origin.layer in ("flag", "env")
    ]
    if typed:
        yield (
            f"Note: measured with {', '.join(dict.fromkeys(typed))}, which the file does not set; "
            "other settings may have another best length."
        )
