"""Rivals: other engines that a run can start, measure as servers and stop, on the same model file.

    [NAME=]rival:RECIPE[,python=PATH][,speculation=KIND][,draft_tokens=N][,match_tokens=N]
        [,draft_model=FILE][,file=FILE][,body.FIELD=VALUE...]

In: an arm's text, the model's file, threads and context. Out: a running server as a URL. Rivals are
no dependencies: each lives in a Python environment of its own, which `python=` names. A section of
docs/rivals.md is about each.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leeway.bench.arm_spec import split_name
from leeway.bench.server_process import free_port, running
from leeway.bench.url_spec import UrlSpec, read_options
from leeway.core.config_values import integer
from leeway.core.errors import ConfigError, did_you_mean

PREFIX = "rival:"
GRAMMAR = (
    "write [NAME=]rival:RECIPE[,python=PATH][,speculation=KIND][,draft_tokens=N][,match_tokens=N]"
    "[,draft_model=FILE][,file=FILE][,body.FIELD=VALUE...], like "
    "lookup=rival:llama.cpp,speculation=ngram"
)
_SCRIPTS = Path(__file__).parent / "rival_servers"
_OWN_OPTIONS = ("python", "speculation", "draft_tokens", "match_tokens", "draft_model", "file")
_MATCHING = ("ngram", "ngram-mod")
_DRAFTING = (*_MATCHING, "draft")
_PROBE_TIMEOUT_S = 60.0
_SEE = "docs/rivals.md says how"
_VERSION = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to run one rival.

    Attributes:
        package: what to install; its version is the rival's.
        speculation: kinds that it can do, plain first.
        script: serves the model, run by the rival's Python; None where no recipe starts it.
        engine: the module beside it that `token_server.py` serves.
        why_not: why none does.
        extra: fields of every body.
    """

    name: str
    package: str
    speculation: Sequence[str] = ("none",)
    script: str | None = None
    engine: str | None = None
    why_not: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


RECIPES = {
    one.name: one
    for one in (
        Recipe(
            "llama.cpp",
            "xllamacpp",
            ("none", "ngram", "ngram-mod", "draft"),
            "llama_cpp.py",
            extra={"cache_prompt": False},
        ),
        Recipe(
            "openvino-genai",
            "openvino-genai",
            ("none", "ngram"),
            "token_server.py",
            "genai_engine",
        ),
        Recipe(
            "transformers",
            "transformers",
            ("none", "ngram", "draft"),
            "token_server.py",
            "transformers_engine",
        ),
        Recipe(
            "vllm",
            "vllm",
            why_not="its CPU build takes a folder of the hub and not this file; start it yourself "
            f"and name its URL, {_SEE}",
        ),
    )
}


@dataclass(frozen=True, slots=True)
class RivalSpec:
    """A rival as an arm.

    Attributes:
        python: the interpreter of its environment.
        draft_tokens: most draft tokens of a step; None leaves the rival's own.
        match_tokens: tokens that an n-gram has to match; None leaves the rival's own.
        file: another file of the model, for a rival that cannot read the run's own.
    """

    name: str
    recipe: Recipe
    python: str
    speculation: str
    draft_tokens: int | None
    match_tokens: int | None
    draft_model: str | None
    extra: Mapping[str, Any]
    file: str | None = None


@dataclass(frozen=True, slots=True)
class Presence:
    """Whether a recipe can run; `reason` says why not."""

    version: str | None
    reason: str | None


def is_rival(text: str) -> bool:
    """Return whether an arm is a rival."""
    return text.strip().startswith(PREFIX) or f"={PREFIX}" in text


def parse_rival(text: str) -> RivalSpec:
    """Return the rival that an arm's text names.

    Raises:
        ConfigError: the text does not follow the grammar, or no recipe can do what it asks for.
    """
    name, spec = split_name(text)
    if not spec.startswith(PREFIX):
        raise ConfigError(f"arm {text!r} is not an arm; {GRAMMAR}", param="arm")
    word, *options = spec.removeprefix(PREFIX).split(",")
    recipe = RECIPES.get(word.strip())
    if recipe is None:
        hint = did_you_mean(word, RECIPES)
        raise ConfigError(
            f"arm {text!r} has the recipe {word!r}{hint}; allowed: {', '.join(RECIPES)}",
            param="arm",
        )
    if recipe.why_not is not None:
        raise ConfigError(f"arm {text!r} cannot be started: {recipe.why_not}", param="arm")
    own = {key: value for key, value in map(_split, options) if key in _OWN_OPTIONS}
    _, send, extra = read_options(text, [one for one in options if _split(one)[0] not in own])
    if send is not None or any(one.startswith("model=") for one in options):
        raise ConfigError(f"arm {text!r} has an option of a URL; {GRAMMAR}", param="arm")
    kind = own.get("speculation", "none")
    if kind not in recipe.speculation:
        raise ConfigError(
            f"arm {text!r} has speculation={kind}{did_you_mean(kind, recipe.speculation)}; "
            f"{recipe.name} can do {', '.join(recipe.speculation)}",
            param="arm",
        )
    _check_options(text, kind, own)
    return RivalSpec(
        name or spec,
        recipe,
        own.get("python", sys.executable),
        kind,
        _count(text, own, "draft_tokens"),
        _count(text, own, "match_tokens"),
        own.get("draft_model"),
        {**recipe.extra, **extra},
        own.get("file"),
    )


def presence(recipe: Recipe, python: str) -> Presence:
    """Return whether the recipe's package is in an interpreter's environment."""
    command = [python, "-c", _VERSION, recipe.package]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as reason:
        return Presence(None, f"{python!r} cannot be run: {reason}")
    version = done.stdout.strip() if done.returncode == 0 else None
    if version is None and recipe.why_not is None:
        return Presence(
            None,
            f"{recipe.package} is not installed there; install it into an environment of its own "
            f"and name that by python=PATH ({_SEE})",
        )
    return Presence(version, recipe.why_not)


def _check_options(text: str, kind: str, own: Mapping[str, str]) -> None:
    """Refuse options that this kind of speculation has not.

    Raises:
        ConfigError: there is one.
    """
    if (kind == "draft") != ("draft_model" in own):
        why = "speculation=draft and draft_model=FILE go together"
        raise ConfigError(f"arm {text!r}: {why}", param="arm")
    for option, kinds in (("draft_tokens", _DRAFTING), ("match_tokens", _MATCHING)):
        if option in own and kind not in kinds:
            raise ConfigError(
                f"arm {text!r} gives {option}, which speculation={kind} has not; it goes with "
                f"{', '.join(kinds)}",
                param="arm",
            )


@contextmanager
def running_rival(
    spec: RivalSpec, model: Path, *, num_threads: int, context_len: int
) -> Iterator[UrlSpec]:
    """Run a rival on a model file, or on its own, until the end of the `with`.

    Raises:
        ConfigError: it is not installed, or does not come up.
    """
    found = presence(spec.recipe, spec.python)
    if found.reason is not None:
        raise ConfigError(f"arm {spec.name!r}: {found.reason}")
    model = model if spec.file is None else Path(spec.file)
    if not model.exists():
        raise ConfigError(f"arm {spec.name!r}: there is no {str(model)!r}; correct file=")
    assert spec.recipe.script is not None
    port = free_port()
    url = f"http://127.0.0.1:{port}/v1"
    asked = {
        "engine": spec.recipe.engine,
        "model": str(model),
        "name": model.stem,
        "port": port,
        "threads": num_threads,
        "context": context_len,
        "speculation": spec.speculation,
        "draft_model": spec.draft_model,
        "draft_tokens": spec.draft_tokens,
        "match_tokens": spec.match_tokens,
    }
    command = [spec.python, str(_SCRIPTS / spec.recipe.script), json.dumps(asked)]
    shown = definition(spec, found.version or "", num_threads)
    with running(f"arm {spec.name!r}", command, url):
        yield UrlSpec(spec.name, url, model.stem, "tokens", spec.extra, shown)


def definition(spec: RivalSpec, version: str, num_threads: int) -> str:
    """Return what ran, without paths and ports, which say nothing of speed."""
    parts = [
        PREFIX + spec.recipe.name,
        f"{spec.recipe.package}={version}",
        f"threads={num_threads}",
        f"speculation={spec.speculation}",
    ]
    for option in ("draft_tokens", "match_tokens"):
        value = getattr(spec, option)
        if value is not None:
            parts.append(f"{option}={value}")
    for option, path in (("draft_model", spec.draft_model), ("file", spec.file)):
        if path is not None:
            parts.append(f"{option}={Path(path).name}")
    return ",".join(parts)


def _split(option: str) -> tuple[str, str]:
    key, _, value = option.partition("=")
    return key.strip(), value.strip()


def _count(text: str, own: Mapping[str, str], option: str) -> int | None:
    if option not in own:
        return None
    try:
        value = integer(1, 64)(own[option])
    except ValueError as reason:
        raise ConfigError(f"arm {text!r} has {option} that {reason}", param="arm") from None
    assert isinstance(value, int)
    return value
