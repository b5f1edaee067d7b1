"""What `leeway bench ladder` does behind its flags."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

from leeway.bench import summary as words
from leeway.bench.arm_spec import ArmSpec, parse_arms
from leeway.bench.identity import identity_of
from leeway.bench.interleaved import Plan, measure, resume
from leeway.bench.ladder import (
    DEFINITIONS,
    Rung,
    in_order,
    ladder_tables,
    parse_contexts,
    rung_folder,
    rung_of,
    to_16bit,
)
from leeway.bench.load_arms import LoadedArms
from leeway.bench.own_text import own_texts
from leeway.bench.runs import whole_blocks
from leeway.bench.summary import warnings_of
from leeway.bench.window import Window
from leeway.bench.workload import Prompt, encode, read_sources
from leeway.cli.bench_options import Asked
from leeway.cli.bench_run import INTERRUPTED, OK, SUMMARY, load
from leeway.cli.bench_table import print_rows
from leeway.cli.call import Call, Screen, to_json
from leeway.core.config import Config, KVCacheName
from leeway.core.config_settings import KV_CACHES
from leeway.core.errors import ConfigError, did_you_mean
from leeway.core.files import only_writer
from leeway.core.types import SamplingParams

_DEFAULT_CONTEXTS = "512,1K,2K,4K,8K"
_MAX_TOKENS = 64
Found = dict[tuple[str, int], list[Window]]


def run_ladder(
    call: Call,
    texts: Sequence[str],
    contexts: str | None,
    kv_caches: str | None,
    asked: Asked,
) -> int:
    """Measure every rung that is not measured yet, show all of them, and return the exit code.

    Raises:
        LeewayError: something asked for is refused, or a model cannot be had.
    """
    config, screen = call.resolve()
    asked.check()
    caches = _caches(kv_caches, config)
    is_given = config.values["max_tokens"].is_given
    max_tokens = config.sampling.max_tokens if is_given else _MAX_TOKENS
    sampling = replace(config.sampling, seed=None, ignore_eos=True, max_tokens=max_tokens)
    lengths = parse_contexts(contexts or _DEFAULT_CONTEXTS)
    if lengths[0] <= max_tokens:
        raise ConfigError(
            f"context {lengths[0]} leaves no room for a prompt before {max_tokens} output tokens; "
            "give longer --contexts or a smaller --max-tokens"
        )
    specs = parse_arms(texts, config.engine)
    climb = _Climb(config, specs, sampling, asked, screen, call.command)
    found: Found = {}
    is_interrupted = False
    try:
        with only_writer(asked.out):
            for kv_cache in caches:
                climb.measure(kv_cache, lengths, found, is_given=contexts is not None)
    except KeyboardInterrupt:
        is_interrupted = True
        screen.note(
            "interrupted" + ("" if asked.out is None else "; the same command goes on from there")
        )
    names = [spec.name for spec in specs]
    kept = [whole_blocks(windows, names) for windows in found.values()]
    rungs = in_order([rung_of(windows) for windows in kept if windows])
    show_ladder(rungs, screen, asked.out, is_interrupted=is_interrupted)
    return INTERRUPTED if is_interrupted else OK


def show_ladder(
    rungs: Sequence[Rung], screen: Screen, out: Path | None, *, is_interrupted: bool = False
) -> None:
    """Print the tables of a ladder, and keep them beside the rungs."""
    if not rungs:
        screen.note("nothing was measured")
        return
    warnings = ladder_warnings(rungs)
    report = _as_json(rungs, warnings) | {"is_interrupted": is_interrupted}
    if out is not None:
        with suppress(OSError):
            (out / SUMMARY).write_text(to_json(report) + "\n", encoding="utf-8")
    if screen.is_json:
        screen.print_json(report)
        return
    console = screen.out()
    for rows in ladder_tables(rungs):
        print_rows(rows, console)
    for warning in warnings:
        console.print(f"! {warning}", style="yellow")
    if not screen.is_quiet:
        for name, meaning in DEFINITIONS.items():
            console.print(f"{name}: {meaning}", style="dim")


def ladder_warnings(rungs: Sequence[Rung]) -> list[str]:
    """Return what a reader must know, with the rung it is about."""
    return [
        f"context {rung.context_len}, {rung.kv_cache}: {warning}"
        for rung in rungs
        for warning in warnings_of(rung.windows, rung.summaries)
    ]


def _as_json(rungs: Sequence[Rung], warnings: Sequence[str]) -> dict[str, Any]:
    return {
        "definitions": {**words.DEFINITIONS, **DEFINITIONS},
        "warnings": list(warnings),
        "rungs": [
            {
                "context_len": rung.context_len,
                "kv_cache": rung.kv_cache,
                "identity": rung.windows[0].identity,
                "wall_s": {one.name: rung.wall_s(one.name) for one in rung.summaries},
                "decode_x_16bit": {
                    one.name: None if ratio is None else asdict(ratio)
                    for one in rung.summaries
                    for ratio in [to_16bit(rungs, rung, one.name)]
                },
                "arms": [asdict(one) for one in rung.summaries],
            }
            for rung in rungs
        ],
    }


@dataclass(frozen=True, slots=True)
class _Climb:
    """Measures the rungs of one cache after another; `found` grows as they are measured."""

    config: Config
    specs: Sequence[ArmSpec]
    sampling: SamplingParams
    asked: Asked
    screen: Screen
    command: str

    def measure(
        self, kv_cache: KVCacheName, lengths: Sequence[int], found: Found, *, is_given: bool
    ) -> None:
        """Load the model with this cache and go up the ladder, once a round."""
        config = self.config
        engine = replace(config.engine, kv_cache=kv_cache)
        config = replace(config, server=replace(config.server, engine=engine))
        loaded = load(config, self.screen, self.specs, self.sampling)
        prompts = dict(self._prompts(loaded, lengths, is_given=is_given))
        for round_index in range(1, self.asked.rounds + 1):
            for context_len, chosen in prompts.items():
                self.screen.note(
                    f"context {context_len}, KV cache {kv_cache}, round {round_index} of "
                    f"{self.asked.rounds}"
                )
                plan = Plan(chosen, self.sampling, self.asked.seeds, round_index)
                windows = found.setdefault((kv_cache, context_len), [])
                self._rung(loaded, plan, kv_cache, context_len, windows)
        del loaded
        gc.collect()  # one load's memory goes before the next one's comes

    def _rung(
        self,
        loaded: LoadedArms,
        plan: Plan,
        kv_cache: str,
        context_len: int,
        windows: list[Window],
    ) -> None:
        names = [spec.name for spec in self.specs]
        identity = identity_of(loaded.arms, plan, loaded.model_sha256, loaded.drafters)
        out = self.asked.out
        folder = None if out is None else rung_folder(out, kv_cache, context_len)
        if folder is not None:
            asked = set(plan.blocks())
            done = resume(folder, identity, names)
            windows[:] = [window for window in done if window.block in asked]
            folder.mkdir(parents=True, exist_ok=True)
        windows.extend(
            measure(
                loaded.arms,
                plan,
                identity,
                folder=folder,
                done=list(windows),
                command=self.command,
            )
        )

    def _prompts(
        self, loaded: LoadedArms, lengths: Sequence[int], *, is_given: bool
    ) -> Iterator[tuple[int, list[Prompt]]]:
        """Yield each context that the model has room for, with prompts that end there."""
        parts = loaded.arms[0].engine.parts
        path = self.asked.prompts
        sources = own_texts() if path is None else read_sources(path)
        for context_len in lengths:
            room = min(parts.backend.context_len, parts.backend.capacity_tokens)
            if context_len > room:
                reason = f"the model has room for {room} tokens (its context, or its KV cache)"
                if is_given:
                    raise ConfigError(
                        f"context {context_len} is too long: {reason}; give shorter --contexts, "
                        "or more --kv-memory"
                    )
                self.screen.note(f"context {context_len} is left out: {reason}")
                continue
            prompt_len = context_len - self.sampling.max_tokens
            made = encode(sources, parts.tokenizer, parts.chat_template, prompt_len)
            yield context_len, made[: self.asked.limit]


def _caches(text: str | None, config: Config) -> list[KVCacheName]:
    """Return the precisions asked for.

    Raises:
        ConfigError: one is unknown or given twice.
    """
    if text is None:
        return [config.engine.kv_cache]
    names = [word.strip() for word in text.split(",")]
    for name in names:
        if name not in KV_CACHES:
            raise ConfigError(
                f"--kv-caches has {name!r}{did_you_mean(name, KV_CACHES) or ';'} allowed: "
                f"{', '.join(KV_CACHES)}"
            )
        if names.count(name) > 1:
            raise ConfigError(f"--kv-caches gives {name!r} twice; give each once")
    return [cast(KVCacheName, name) for name in names]
