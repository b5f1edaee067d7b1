"""The metadata of a head file: strings by key, and what they say.

In: the strings of a file's header. Out: the numbers of a `HeadSpec`; and the way back. Which
tensors must be there follows from them and is `models.head_shapes`' business.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from leeway.core.errors import ModelError
from leeway.models.base import ArchitectureSpec
from leeway.models.head_base import HeadSpec
from leeway.models.tensor_shapes import FAMILIES

FORMAT, VERSION = "leeway-draft-head", "1"
KEYS = ("format", "version", "target_name", "target_sha256", "depth", "decoder", "training")
MAX_DEPTH = 16
MAX_LAYERS = 64
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class HeadMetadata:
    """What the strings say."""

    target_name: str
    target_sha256: str
    depth: int
    decoder: ArchitectureSpec
    training: Mapping[str, Any]


def write_metadata(spec: HeadSpec, target_name: str) -> dict[str, str]:
    """Return the strings for a head; they are readable by `read_metadata`.

    Raises:
        ModelError: the head cannot be written down in this format; names what is wrong.
    """
    try:
        training = json.dumps(dict(spec.training), sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ModelError(f"the training summary of a head must be JSON: {error}") from error
    values = {
        "format": FORMAT,
        "version": VERSION,
        "target_name": target_name,
        "target_sha256": spec.target_sha256 or "",
        "depth": str(spec.depth),
        "decoder": json.dumps(asdict(spec.decoder), sort_keys=True),
        "training": training,
    }
    read_metadata(values, f"the head for {target_name!r}")
    return values


def read_metadata(values: Mapping[str, Any], source: str) -> HeadMetadata:
    """Read the strings of a file; `source` names it in errors.

    Raises:
        ModelError: another format or version, or a key that is missing, unknown or wrong.
    """
    found = values.get("format")
    if found != FORMAT:
        told = "it says of no format" if found is None else f"its format is {found!r}"
        raise ModelError(
            f"{source} is not a draft head: {told}, not {FORMAT!r}; give a file that "
            "`leeway heads list` shows"
        )
    if values.get("version") != VERSION:
        raise ModelError(
            f"{source} has version {values.get('version')!r} of the head format; version "
            f"{VERSION!r} can be read: make the head again, or use the release that made it"
        )
    for key in KEYS:
        if not isinstance(values.get(key), str):
            raise ModelError(f"{source}: metadata lacks the string {key!r}; make the head again")
    for key in values:
        if key not in KEYS:
            raise ModelError(f"{source}: unknown metadata {key!r}; known are {', '.join(KEYS)}")
    if not _SHA256.fullmatch(values["target_sha256"]):
        raise ModelError(
            f"{source}: target_sha256 is {values['target_sha256']!r}; it must be 64 lower-case "
            "hexadecimal digits"
        )
    if not re.fullmatch("[1-9][0-9]?", values["depth"]) or int(values["depth"]) > MAX_DEPTH:
        raise ModelError(
            f"{source}: depth is {values['depth']!r}; it must be a whole number from 1 to "
            f"{MAX_DEPTH}"
        )
    return HeadMetadata(
        target_name=values["target_name"],
        target_sha256=values["target_sha256"],
        depth=int(values["depth"]),
        decoder=_read_decoder(_json_object(values["decoder"], "decoder", source), source),
        training=_json_object(values["training"], "training", source),
    )


def _json_object(text: str, key: str, source: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ModelError(
            f"{source} is corrupt: its {key} is not JSON ({error}); make or fetch it again"
        ) from error
    if not isinstance(value, dict):
        raise ModelError(f"{source} is corrupt: its {key} is not a JSON object")
    return value


def _read_decoder(values: Mapping[str, Any], source: str) -> ArchitectureSpec:
    kinds = {field.name: str(field.type) for field in fields(ArchitectureSpec)}
    for name, kind in kinds.items():
        if name not in values:
            raise ModelError(f"{source}: decoder lacks {name!r}; make the head again")
        reason = _wrong(values[name], kind)
        if reason:
            raise ModelError(f"{source}: decoder has {name} {values[name]!r}; it must be {reason}")
    for name in values:
        if name not in kinds:
            raise ModelError(
                f"{source}: decoder has the unknown number {name!r}; known are {', '.join(kinds)}"
            )
    if values["family"] not in FAMILIES:
        raise ModelError(
            f"{source}: decoder has family {values['family']!r}; known are {', '.join(FAMILIES)}"
        )
    if values["num_layers"] > MAX_LAYERS:
        raise ModelError(
            f"{source}: decoder has {values['num_layers']} layers; a head has at most {MAX_LAYERS}"
        )
    if values["num_heads"] % values["num_kv_heads"] or values["head_size"] % 2:
        raise ModelError(
            f"{source}: decoder has num_heads {values['num_heads']}, num_kv_heads "
            f"{values['num_kv_heads']} and head_size {values['head_size']}; the first must be a "
            "multiple of the second and the third even"
        )
    floats = {name: float(values[name]) for name, kind in kinds.items() if kind == "float"}
    return ArchitectureSpec(**{**values, **floats})


def _wrong(value: object, kind: str) -> str | None:
    """Return what a value of a kind must be, in words, if this one is not."""
    if kind == "bool":
        return None if isinstance(value, bool) else "true or false"
    if kind == "str":
        return None if isinstance(value, str) else "a string"
    if kind == "int":
        is_good = isinstance(value, int) and not isinstance(value, bool) and value > 0
        return None if is_good else "a whole number > 0"
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return None if is_number and 0 < value < float("inf") else "a number > 0"  # type: ignore[operator]
