"""Tiny random draft heads: tensors under canonical names, and files of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leeway.models.base import ArchitectureSpec
from leeway.models.head_base import HeadSpec
from leeway.models.head_file import write_head
from leeway.models.head_shapes import OPTIONAL, head_shapes
from tests.support.tiny_models import Tensors, tiny_spec

SHA256 = "ab" * 32


def tiny_head_spec(
    family: str = "llama",
    *,
    num_draft_tokens: int | None = None,
    num_layers: int = 1,
    target: ArchitectureSpec | None = None,
    **changes: Any,
) -> HeadSpec:
    """Return a spec for a tiny target; `num_draft_tokens` takes every second id."""
    decoder = replace(target or tiny_spec(family), num_layers=num_layers)
    ids = None if num_draft_tokens is None else 2 * np.arange(num_draft_tokens, dtype=np.int64)
    spec = HeadSpec(
        decoder=decoder,
        depth=3,
        draft_token_ids=ids,
        target_sha256=SHA256,
        training={"steps": 7},
    )
    return replace(spec, **changes)


def random_head_tensors(spec: HeadSpec, seed: int = 0, optional: tuple[str, ...] = ()) -> Tensors:
    """Return weights small enough for a stable forward; norms are near one."""
    rng = np.random.default_rng(seed)
    tensors = {}
    for name, shape in head_shapes(spec).items():
        if name in OPTIONAL and name not in optional:
            continue
        values = rng.standard_normal(shape).astype(np.float32) * np.float32(0.2)
        if name.endswith(("norm", "factors", "gain")):
            values = np.abs(values) + np.float32(1)
        tensors[name] = values
    return tensors


def write_tiny_head(
    path: Path,
    spec: HeadSpec | None = None,
    *,
    kind: str = "int8",
    seed: int = 0,
    optional: tuple[str, ...] = (),
    target_name: str = "tiny",
) -> Tensors:
    """Write a head of random tensors and return them, before rounding."""
    spec = spec or tiny_head_spec()
    tensors = random_head_tensors(spec, seed, optional)
    write_head(path, tensors=tensors, spec=spec, target_name=target_name, kind=kind)
    return tensors


def read_raw(path: Path) -> tuple[dict[str, str], dict[str, NDArray[Any]]]:
    """Return metadata and arrays of a file as the safetensors package reads them."""
    from safetensors import safe_open

    with safe_open(path, framework="np") as file:
        names = list(file.keys())
        return dict(file.metadata()), {name: file.get_tensor(name) for name in names}


def write_raw(path: Path, metadata: Mapping[str, str], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a file with the safetensors package, whatever it says."""
    from safetensors.numpy import save_file

    save_file(dict(arrays), path, metadata=dict(metadata))


def changed_json(text: str, **changes: Any) -> str:
    """Return a JSON object with some keys changed, or (None) left out."""
    values = json.loads(text) | changes
    return json.dumps({key: value for key, value in values.items() if value is not None})
