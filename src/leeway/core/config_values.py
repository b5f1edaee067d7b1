"""Configuration, lowest layer: where a value came from, and how one raw value is read.

In: a raw value as a flag, an environment variable, a TOML key or an argument gives it. Out: the
checked value. A reader raises ValueError with the rest of a sentence ("is not a number; ..."); the
resolver puts the setting's name, the raw value and its origin in front.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from leeway.core.errors import did_you_mean
from leeway.core.receipt import LawOption

Layer = Literal["flag", "env", "file", "default", "api"]
LAYER_ORDER: tuple[Layer, ...] = ("default", "file", "env", "api", "flag")
Reader = Callable[[object], object]

_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[a-z]*)", re.IGNORECASE)
_UNITS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "k": 2**10,
    "m": 2**20,
    "g": 2**30,
    "t": 2**40,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off"}
_OFF = {"", "off", "none"}


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value came from.

    `name` is what the user would edit: `--typical-threshold`, `LEEWAY_TYPICAL_THRESHOLD`,
    `leeway.toml: typical_threshold`, `argument typical_threshold`; `default` for a default.
    """

    layer: Layer
    name: str

    def __str__(self) -> str:
        return self.name

    def is_above(self, other: Origin) -> bool:
        """Return whether this layer takes precedence over the other's."""
        return LAYER_ORDER.index(self.layer) > LAYER_ORDER.index(other.layer)


DEFAULT_ORIGIN = Origin("default", "default")


def text(raw: object) -> str:
    """Read a text that is not empty."""
    if not isinstance(raw, str):
        raise ValueError("is not a text; put it in quotes")
    if not raw.strip():
        raise ValueError("is empty; give a value or leave it out")
    return raw


def path(raw: object) -> Path:
    """Read a path; `~` is the home folder."""
    return raw if isinstance(raw, Path) else Path(text(raw)).expanduser()


def choice(*allowed: str) -> Reader:
    """Return a reader of one of these words."""

    def read(raw: object) -> str:
        if raw not in allowed:
            hint = did_you_mean(str(raw), allowed)
            raise ValueError(f"is not one of {', '.join(allowed)}{hint}")
        return str(raw)

    return read


def integer(low: int, high: int | None = None) -> Reader:
    """Return a reader of an integer from `low` to `high`, both included."""
    allowed = f"an integer from {low} to {high}" if high is not None else f"an integer, {low} or up"

    def read(raw: object) -> int:
        try:
            value = int(raw) if isinstance(raw, str) else raw
        except ValueError:
            raise ValueError(f"is not an integer; give {allowed}") from None
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f"is not an integer; give {allowed}")
        if value < low or (high is not None and value > high):
            raise ValueError(f"is out of range; give {allowed}")
        return value

    return read


def number(raw: object) -> float:
    """Read a finite number; ranges are the law's or the sampler's to check."""
    try:
        value = float(raw) if isinstance(raw, str) else raw
    except ValueError:
        raise ValueError("is not a number; write it like 0.3") from None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError("is not a finite number; write it like 0.3")
    return float(value)


def non_negative(raw: object) -> float:
    """Read a finite number of at least zero."""
    value = number(raw)
    if value < 0:
        raise ValueError("is below zero; give 0 or more, like 0.1")
    return value


def zero_or(low: float, high: float) -> Reader:
    """Return a reader of 0 or a number from `low` to `high`, both included."""

    def read(raw: object) -> float:
        value = number(raw)
        if value != 0 and not low <= value <= high:
            raise ValueError(f"is out of range; give 0, or {low:g} to {high:g}")
        return value

    return read


def optional(reader: Reader) -> Reader:
    """Return a reader that also takes `off` and `none`, which both mean unset."""

    def read(raw: object) -> object:
        if raw is None or (isinstance(raw, str) and raw.strip().lower() in _OFF):
            return None
        return reader(raw)

    return read


def switch(raw: object) -> bool:
    """Read true or false."""
    if isinstance(raw, bool):
        return raw
    word = str(raw).strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise ValueError("is neither true nor false; write true or false")


def size_bytes(raw: object) -> int:
    """Read a memory size: `2GiB`, `512MiB`, `3GB`, or a number of bytes."""
    allowed = "write it like 512MiB, 2GiB or 3GB, or as a number of bytes"
    found = _SIZE.fullmatch(str(raw).strip())
    if isinstance(raw, bool) or found is None or found["unit"].lower() not in _UNITS:
        raise ValueError(f"is not a memory size; {allowed}")
    value = int(float(found["number"]) * _UNITS[found["unit"].lower()])
    if value <= 0:
        raise ValueError(f"is not above zero; {allowed}")
    return value


def format_size(num_bytes: int) -> str:
    """Return a size in the largest unit that keeps the number at 1 or above: `2.0 GiB`."""
    value, unit = float(num_bytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{num_bytes} B" if unit == "B" else f"{value:.1f} {unit}"


def words(raw: object) -> tuple[str, ...]:
    """Read a list of words: a list, or one text with commas between them."""
    parts = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(parts, (list, tuple)) or not all(isinstance(part, str) for part in parts):
        raise ValueError("is not a list of names; write them with commas between")
    found = tuple(part.strip() for part in parts if part.strip())
    if not found:
        raise ValueError("names nothing; give a name or leave it out")
    return found


def texts(raw: object) -> tuple[str, ...]:
    """Read a list of texts taken as they are; one text is a list of one."""
    parts = (raw,) if isinstance(raw, str) else raw
    if not isinstance(parts, (list, tuple)) or not all(isinstance(part, str) for part in parts):
        raise ValueError("is not a list of texts")
    if not all(parts):
        raise ValueError("holds an empty text; leave it out")
    return tuple(parts)


def law_options(raw: object) -> dict[str, LawOption]:
    """Read law options: a table, a list of `key=value`, or one text with commas between them."""
    if isinstance(raw, Mapping):
        return {str(key): _law_value(str(key), value) for key, value in raw.items()}
    parts = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(parts, (list, tuple)):
        raise ValueError("is not key=value; write it like delta=0.3")
    found: dict[str, LawOption] = {}
    for part in parts:
        key, equals, value = str(part).partition("=")
        key, value = key.strip().replace("-", "_"), value.strip()
        if not (key and equals and value):
            raise ValueError(
                f"holds {str(part)!r}, which is not key=value; write it like delta=0.3"
            )
        if key in found:
            raise ValueError(f"gives {key!r} twice; give it once")
        found[key] = _law_value(key, value)
    return found


def _law_value(key: str, raw: object) -> LawOption:
    if isinstance(raw, bool) or not isinstance(raw, (int, float, str)):
        raise ValueError(f"gives {key!r} neither a number nor a word")
    if not isinstance(raw, str):
        return raw
    for kind in (int, float):
        try:
            return kind(raw)
        except ValueError:
            continue
    return raw
