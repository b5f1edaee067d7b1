"""A load test: levels of load on one server, each kept in a file as soon as it is measured.

In: a server, conversations, sampling, levels. Out: level files and summaries. Levels that a folder
already has are not measured again; those of another server, workload or sampling are refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from leeway.bench.http_stream import TIMEOUT_S, Answer, ask
from leeway.bench.machine import read_load
from leeway.bench.runs import differences
from leeway.bench.traffic import (
    LevelSummary,
    Reply,
    closed_loop,
    open_loop,
    poisson_times,
    reply_to_json,
    summarise_level,
)
from leeway.bench.url_arm import sampling_fields
from leeway.bench.url_spec import UrlSpec, nested
from leeway.bench.workload import Source, digest_of
from leeway.core.errors import ConfigError
from leeway.core.files import write_whole
from leeway.core.types import SamplingParams

SCHEMA = 1
SUFFIX = ".level.json"


@dataclass(frozen=True, slots=True)
class Level:
    """So many clients in a closed loop, or so many requests a second; exactly one is given."""

    num_clients: int | None = None
    rate: float | None = None

    @property
    def text(self) -> str:
        """The level for people."""
        if self.num_clients is not None:
            return f"{self.num_clients} client{'' if self.num_clients == 1 else 's'}"
        return f"{self.rate:g} requests/s"


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """What to ask: request i is source i (from the start again behind the last) with seed + i.

    `seed` is also that of the arrivals at a request rate.
    """

    sources: Sequence[Source]
    sampling: SamplingParams
    num_requests: int
    seed: int

    def facts(self) -> dict[str, Any]:
        """Return what must be equal for levels to be compared."""
        fields = sampling_fields(self.sampling)
        del fields["seed"]
        return {
            "workload_sha256": digest_of([one.content for one in self.sources]),
            "sampling": fields,
            "num_requests": self.num_requests,
            "seed": self.seed,
        }


def body(spec: UrlSpec, plan: LoadPlan, index: int) -> tuple[str, dict[str, Any]]:
    """Return path and body of a request: a conversation goes to chat, a text to completions."""
    content = plan.sources[index % len(plan.sources)].content
    prompt: dict[str, Any]
    if isinstance(content, str):
        path, prompt = "/completions", {"prompt": content}
    else:
        path, prompt = "/chat/completions", {"messages": [dict(one) for one in content]}
    model = {} if spec.model is None else {"model": spec.model}
    return path, {
        **prompt,
        **model,
        **sampling_fields(replace(plan.sampling, seed=plan.seed + index)),
        "stream": True,
        "stream_options": {"include_usage": True},
        **nested(spec.extra),
    }


def wake(spec: UrlSpec, plan: LoadPlan) -> None:
    """Run one request that is not counted.

    Raises:
        ConfigError: it fails.
    """
    answer = _ask(spec, plan, 0)
    if answer.error is not None:
        raise ConfigError(f"{spec.url}: the first request failed: {answer.error}")


def measure_levels(
    spec: UrlSpec,
    plan: LoadPlan,
    levels: Sequence[Level],
    identity: Mapping[str, Any],
    *,
    folder: Path | None,
    on_level: Callable[[Level], None] = lambda _: None,
    command: str | None = None,
) -> Iterator[LevelSummary]:
    """Yield the summary of each level, measured or as the folder has it.

    `command` is kept as it is.

    Raises:
        ConfigError: the folder holds levels of another run.
    """
    known = read_levels(folder, identity) if folder is not None else {}
    for level in levels:
        if level.text in known:
            yield known[level.text]
            continue
        on_level(level)
        before = read_load()
        replies = _run(spec, plan, level)
        summary = summarise_level(level.text, replies)
        if folder is not None:
            facts = {
                "identity": dict(identity),
                "load_before": before,
                "level": asdict(level),
                "command": command,
            }
            _write(folder, facts, replies, summary)
        yield summary


def read_levels(folder: Path, identity: Mapping[str, Any]) -> dict[str, LevelSummary]:
    """Return the summaries that a folder has, by the level's text.

    Raises:
        ConfigError: a file is no level of this form, or of another run.
    """
    found = {}
    for path in sorted(folder.glob("*" + SUFFIX)):
        try:
            value = json.loads(path.read_bytes())
            summary = msgspec.convert(value["summary"], LevelSummary)
            old, schema = value["identity"], value["schema"]
        except (OSError, ValueError, KeyError, TypeError, msgspec.ValidationError) as reason:
            raise ConfigError(f"{path} is not a level of bench load ({reason}); move it") from None
        differing = next(differences(old, identity), None)
        if differing is not None or schema != SCHEMA:
            name, was, now = differing or ("schema", schema, SCHEMA)
            raise ConfigError(
                f"{str(folder)!r} holds levels of another run: {name} was {was} and is {now}; "
                "measure into another folder"
            )
        found[summary.load] = summary
    return found


def _ask(spec: UrlSpec, plan: LoadPlan, index: int) -> Answer:
    path, content = body(spec, plan, index)
    return ask(spec.url + path, json.dumps(content).encode(), timeout_s=TIMEOUT_S)


def _run(spec: UrlSpec, plan: LoadPlan, level: Level) -> list[Reply]:
    def ask_one(index: int) -> Answer:
        return _ask(spec, plan, index)

    if level.num_clients is not None:
        return closed_loop(ask_one, plan.num_requests, level.num_clients)
    assert level.rate is not None
    return open_loop(ask_one, poisson_times(level.rate, plan.num_requests, plan.seed))


def _write(
    folder: Path, facts: Mapping[str, Any], replies: Sequence[Reply], summary: LevelSummary
) -> None:
    value = {
        "schema": SCHEMA,
        **facts,
        "summary": asdict(summary),
        "requests": [reply_to_json(one) for one in replies],
    }
    path = folder / (summary.load.replace(" ", "-").replace("/", "-per-") + SUFFIX)
    write_whole(path, (json.dumps(value) + "\n").encode())
