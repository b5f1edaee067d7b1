"""Arms: the ways to decode that a run compares, as a user writes them.

    [NAME=]LAW[:KEY=VALUE,...][@DRAFTER[:DEPTH[:adaptive]][,draft_temperature=X]][/ROWSHAPE]
    [NAME=]plain

`plain` is decoding without drafts, by the law `rejection` and the fast row shape, which is the
quickest honest way. `hard_support=true` among a law's options is the limit of that name: nothing
that the target's row rules out is emitted. In: text. Out: checked arms. Loads nothing: whether a
drafter can be had shows when it is built.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

from leeway.acceptance.registry import build_law
from leeway.core.config import DraftLengthName, EngineConfig
from leeway.core.config_settings import DRAFT_LENGTHS, DRAFTERS, ROW_SHAPES, SETTINGS
from leeway.core.config_values import integer, law_options
from leeway.core.errors import ConfigError, LawError, did_you_mean
from leeway.core.limits import NO_LIMITS, Limits
from leeway.core.receipt import LawOption
from leeway.core.types import Acceptance
from leeway.drafters import registry
from leeway.engine.compatibility import check_draft_rows

PLAIN = "plain"
_HARD = "hard_support"
GRAMMAR = (
    "write [NAME=]LAW[:KEY=VALUE,...][@DRAFTER[:DEPTH[:adaptive]][,draft_temperature=X]]"
    "[/ROWSHAPE], like soft=typical:delta=0.2@ngram:3, or plain"
)
_NAMED = re.compile(r"(?P<name>[^=:@/]+)=(?P<spec>.+)")
_NAME = re.compile(r"[A-Za-z0-9._+-]+")
_SPEC = re.compile(
    r"(?P<law>[^:@/]+)(?::(?P<options>[^@/]+))?"
    r"(?:@(?P<drafter>[^:@/,]+)(?::(?P<depth>[^:@/,]+)(?::(?P<length>[^:@/,]+))?)?"
    r"(?:,draft_temperature=(?P<draft_temperature>[^:@/,]+))?)?"
    r"(?:/(?P<row_shape>[^:@/]+))?"
)


@dataclass(frozen=True, slots=True)
class ArmSpec:
    """One way to decode.

    `drafter` is none exactly when `num_speculative_tokens` is 0. `draft_temperature` is 1 where
    nothing is drawn. `limits` are none, or hard support.
    """

    name: str
    acceptance: Acceptance
    drafter: str
    num_speculative_tokens: int
    draft_length: DraftLengthName
    row_shape: str
    draft_temperature: float = 1.0
    limits: Limits = NO_LIMITS

    @property
    def text(self) -> str:
        """The whole definition in the grammar of this module."""
        words = [f"{key}={value}" for key, value in self.acceptance.options.items()]
        options = ",".join([*words, *([f"{_HARD}=true"] if self.limits.hard_support else [])])
        law = f"{self.acceptance.law}:{options}" if options else self.acceptance.law
        depth = f"{self.num_speculative_tokens}:{self.draft_length}"
        scale = self.draft_temperature
        drawn = f",draft_temperature={scale}" if _draws(self.drafter) else ""
        return f"{law}@{self.drafter}:{depth}{drawn}/{self.row_shape}"


def parse_arms(texts: Sequence[str], config: EngineConfig) -> list[ArmSpec]:
    """Return the arms in the order given.

    Args:
        texts: one an arm; an arm without a name is called by its text.
        config: gives drafter, depth, draft temperature and row shape where an arm says nothing of
            them.

    Raises:
        ConfigError: a text does not follow the grammar, or two arms have one name.
        LawError: a law or one of its options is refused, or cannot work with n-gram drafts.
    """
    arms = [_parse(text, config) for text in texts]
    check_names([arm.name for arm in arms])
    return arms


def check_names(names: Sequence[str]) -> None:
    """Check that no two arms have one name.

    Raises:
        ConfigError: two have.
    """
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(
                f"two arms are called {name!r}; name them apart with --arm NAME=SPEC", param="arm"
            )


def split_name(text: str) -> tuple[str | None, str]:
    """Return the name that an arm's text gives, None if none, and the rest.

    Raises:
        ConfigError: the name holds characters that are not allowed.
    """
    named = _NAMED.fullmatch(text)
    name, spec = (named["name"].strip(), named["spec"].strip()) if named else (None, text.strip())
    if name is not None and not _NAME.fullmatch(name):
        raise ConfigError(
            f"arm {text!r} has the name {name!r}; allowed are letters, digits and . _ + -",
            param="arm",
        )
    return name, spec


@contextmanager
def naming_arm(text: str) -> Iterator[None]:
    """Say in a refusal of a law which arm asked for it."""
    try:
        yield
    except LawError as error:
        raise LawError(f"arm {text!r}: {error.message}", param=error.param) from None


def _parse(text: str, config: EngineConfig) -> ArmSpec:
    name, spec = split_name(text)
    parts = _SPEC.fullmatch(spec)
    if parts is None:
        raise ConfigError(f"arm {text!r} is not an arm; {GRAMMAR}", param="arm")
    if parts["law"] == PLAIN:
        return _plain(text, name or spec, parts)
    try:
        options = law_options(parts["options"]) if parts["options"] else {}
    except ValueError as reason:
        raise ConfigError(f"arm {text!r} {reason}", param="arm") from None
    limits = Limits(hard_support=_hard_support(text, options.pop(_HARD, "false")))
    acceptance = Acceptance(parts["law"], options)
    drafter = _one_of(text, "drafter", parts["drafter"] or config.drafter, DRAFTERS)
    depth = 0 if drafter == "none" else _depth(text, parts["depth"], config)
    if drafter == "none" and parts["depth"] not in (None, "0"):
        raise ConfigError(
            f"arm {text!r} drafts {parts['depth']} tokens with no drafter; drop the depth or name "
            "a drafter",
            param="arm",
        )
    with naming_arm(text):
        check_draft_rows(build_law(acceptance), drafter, gives_rows=_draws(drafter))
    length = _one_of(text, "draft length", parts["length"] or config.draft_length, DRAFT_LENGTHS)
    drafter = drafter if depth else "none"
    return ArmSpec(
        name or spec,
        acceptance,
        drafter,
        depth,
        cast(DraftLengthName, length),
        _row_shape(text, parts["row_shape"] or config.row_shape),
        _draft_temperature(text, parts["draft_temperature"], drafter, config),
        limits,
    )


def _plain(text: str, name: str, parts: re.Match[str]) -> ArmSpec:
    given = [key for key in ("options", "drafter", "depth") if parts[key] is not None]
    if given:
        raise ConfigError(
            f"arm {text!r} gives plain decoding {given[0]}; plain has no law options and no "
            "drafter: write plain, or a law with @DRAFTER",
            param="arm",
        )
    row_shape = _row_shape(text, parts["row_shape"] or "fast")
    return ArmSpec(name, Acceptance(), "none", 0, "fixed", row_shape)


def _hard_support(text: str, word: LawOption) -> bool:
    return _one_of(text, _HARD, str(word), ("true", "false")) == "true"


def _row_shape(text: str, name: str) -> str:
    return _one_of(text, "row shape", name, ROW_SHAPES)


def _one_of(text: str, what: str, word: str, allowed: Sequence[str]) -> str:
    if word not in allowed:
        raise ConfigError(
            f"arm {text!r} has the {what} {word!r}{did_you_mean(word, allowed)}; allowed: "
            f"{', '.join(allowed)}",
            param="arm",
        )
    return word


def _draws(drafter: str) -> bool:
    """Return whether a drafter may draw tokens from rows; `auto` may turn out to be one."""
    return drafter == "auto" or registry.DRAFTERS[drafter].gives_rows


def _draft_temperature(text: str, given: str | None, drafter: str, config: EngineConfig) -> float:
    if given is None:
        return config.draft_temperature if _draws(drafter) else 1.0
    if not _draws(drafter):
        raise ConfigError(
            f"arm {text!r} has a draft temperature and {drafter} drafts, which are not drawn; drop "
            "it or name another drafter",
            param="arm",
        )
    try:
        value = SETTINGS["draft_temperature"].reader(given)
    except ValueError as reason:
        raise ConfigError(
            f"arm {text!r} has a draft_temperature that {reason}", param="arm"
        ) from None
    assert isinstance(value, float)
    return value


def _depth(text: str, given: str | None, config: EngineConfig) -> int:
    if given is None:
        return config.num_speculative_tokens
    try:
        depth = integer(0, 32)(given)
    except ValueError as reason:
        raise ConfigError(f"arm {text!r} has a depth that {reason}", param="arm") from None
    assert isinstance(depth, int)
    return depth
