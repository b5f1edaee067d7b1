"""What vLLM was given for us: the law, the ceiling, and whether its drafts fit the law.

In: `--additional-config`'s value under `leeway`, the environment, what vLLM says of its drafts.
Out: one frozen `PluginSettings`, or None where nothing asks for a law. Imports nothing of vLLM.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from leeway.acceptance.base import Law
from leeway.acceptance.law_ceiling import LawCeiling, build_ceiling
from leeway.acceptance.limits import limit_law
from leeway.acceptance.registry import build_law
from leeway.core.config_law import LawConfig, resolve_law
from leeway.core.errors import ConfigError, LawError
from leeway.core.limits import Limits
from leeway.core.receipt import LawOption
from leeway.core.types import Acceptance

SOURCE = "--additional-config leeway"
METER = "meter_every"
METER_EVERY = 16
LAW_PARAM = "leeway_law"
_POSITIONAL = ("tv_budget", "exact_prefix", "phase", "phase_begin", "phase_end")
_OWN_DRAFTS = ("ngram", "ngram_gpu", "suffix", "medusa")


@dataclass(frozen=True, slots=True)
class Drafts:
    """How this server drafts.

    Attributes:
        method: vLLM's name of it.
        num_speculative_tokens: most draft tokens of a verify step.
        has_rows: whether vLLM keeps the rows that drafts were drawn from.
        why_no_rows: what an operator would change to have them.
    """

    method: str
    num_speculative_tokens: int
    has_rows: bool
    why_no_rows: str


@dataclass(frozen=True, slots=True)
class PluginSettings:
    """Everything that is decided at start.

    Attributes:
        acceptance: the configured law as asked for.
        law: the same, built.
        ceiling: laws that a request may choose.
        hard_support: no law emits a token that the target's row gives nothing; None is true except
            for laws that read raw rows, which are asked for to do just that.
        meter_every: the loss meter reads every so many verify steps; 0 is off.
        drafts: how the server drafts.
        seed: the server's own seed, for requests that bring none.
    """

    acceptance: Acceptance
    law: Law
    ceiling: LawCeiling
    hard_support: bool | None
    meter_every: int
    drafts: Drafts
    seed: int

    def build(self, acceptance: Acceptance) -> Law:
        """Return a law as it judges here.

        Raises:
            LawError: no such law, a bad option, or it needs draft rows that are not kept.
        """
        law = _build(acceptance.law, tuple(sorted(acceptance.options.items())), self.hard_support)
        _check_rows(law, self.drafts)
        return law


def read_config(
    additional: object, *, environ: Mapping[str, str] | None = None
) -> tuple[LawConfig, int] | None:
    """Return what was asked for and `meter_every`, or None where nothing asks for a law.

    Args:
        additional: vLLM's whole additional configuration.
        environ: the environment; `os.environ` when None.

    Raises:
        ConfigError: a value, name or combination is wrong.
    """
    given = additional.get("leeway") if isinstance(additional, Mapping) else None
    if given is not None and not isinstance(given, Mapping):
        raise ConfigError(
            f"{SOURCE} is {given!r}; allowed is an object, like "
            '{"leeway": {"law": "typical", "delta": 0.2}}',
            param="leeway",
        )
    meter_every = METER_EVERY
    if given is not None:
        given = dict(given)
        meter_every = _meter(given.pop(METER, METER_EVERY))
    config = resolve_law(given, SOURCE, environ=environ)
    return None if config is None else (config, meter_every)


def build_settings(
    config: LawConfig, meter_every: int, drafts: Drafts, seed: int
) -> PluginSettings:
    """Return the settings in force.

    Raises:
        ConfigError: a limit that cannot be kept here, or an unknown law in `allow_laws`.
        LawError: no such law, a bad option, or it needs draft rows that are not kept.
    """
    for name in _POSITIONAL:
        value = config.values[name]
        if value.is_given:
            raise ConfigError(
                f"{name} {value.value!r} (from {value.origin}) limits where in an answer a law "
                "acts, which Leeway does in its own server only; drop it",
                param=name,
            )
    support = config.values["hard_support"]
    hard_support = bool(support.value) if support.is_given else None
    law = _build(
        config.acceptance.law, tuple(sorted(config.acceptance.options.items())), hard_support
    )
    _check_rows(law, drafts)
    ceiling = build_ceiling(
        config.allow_laws,
        config.values["allow_laws"].origin,
        law,
        param=LAW_PARAM,
        setting=f"allow_laws in {SOURCE}:",
    )
    return PluginSettings(config.acceptance, law, ceiling, hard_support, meter_every, drafts, seed)


def describe_drafts(speculative: Any) -> Drafts:  # noqa: ANN401
    """Return how this server drafts.

    Args:
        speculative: vLLM's SpeculativeConfig, or None.

    Raises:
        ConfigError: nothing is drafted, or vLLM was told to judge drafts by a rule of its own.
    """
    if speculative is None:
        raise ConfigError(
            f"{SOURCE} chooses an acceptance law, and this server drafts nothing for it to judge; "
            "give --speculative-config as well",
            param="law",
        )
    rule = getattr(speculative, "rejection_sample_method", "standard")
    if rule != "standard":
        raise ConfigError(
            f"--speculative-config has rejection_sample_method {rule!r}, and {SOURCE} chooses an "
            "acceptance law; drop one (Leeway's law `block` is vLLM's method of that name)",
            param="law",
        )
    method = str(speculative.method)
    sampled = getattr(speculative, "draft_sample_method", "greedy")
    has_rows = sampled == "probabilistic" and method not in _OWN_DRAFTS
    why = (
        f"the drafts of method {method!r} have none"
        if method in _OWN_DRAFTS
        else f"draft_sample_method is {sampled!r}; probabilistic keeps them"
    )
    return Drafts(method, int(speculative.num_speculative_tokens), has_rows, why)


@lru_cache(maxsize=1024)
def _build(name: str, options: tuple[tuple[str, LawOption], ...], hard_support: bool | None) -> Law:
    law = build_law(Acceptance(name, dict(options)))
    is_hard = not law.reads_raw_rows if hard_support is None else hard_support
    return limit_law(law, Limits(hard_support=is_hard))


def _check_rows(law: Law, drafts: Drafts) -> None:
    if not law.info.needs_draft_rows:
        return
    if law.reads_raw_rows:
        raise LawError(
            f"law {law.info.name!r} with rows=raw reads the draft model's rows before temperature, "
            "which vLLM does not keep; drop rows, or set rows=processed",
            param="rows",
        )
    if not drafts.has_rows:
        raise LawError(
            f"law {law.info.name!r} reads the draft's own probabilities, and this server keeps "
            f"none: {drafts.why_no_rows} (--speculative-config). Use a law that `leeway laws` "
            "lists as not needing draft rows",
            param=LAW_PARAM,
        )


def _meter(raw: object) -> int:
    if isinstance(raw, bool) or not isinstance(raw, int) or raw < 0:
        raise ConfigError(
            f"{METER} is {raw!r} (from {SOURCE}); allowed: 1 (every verify step), a larger whole "
            f"number ({METER_EVERY} unless set), or 0 (off)",
            param=METER,
        )
    return raw
