"""The safetensors container: which tensors a file holds and where, mapped into memory.

In: paths. Out: raw tensors by the file's own names. The format is read directly, since NumPy has
no bfloat16 that a library could return.

Source: the safetensors format description (8 bytes of header length, a JSON header, raw data).
"""

from __future__ import annotations

import json
import mmap
import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leeway.core.errors import ModelError
from leeway.models.dequantise import widen_bfloat16

_FLOATS = ("F32", "F16", "BF16")
_ITEM_BYTES = {"F32": 4, "F16": 2, "BF16": 2, "I32": 4, "I8": 1}
_MAX_HEADER_BYTES = 100_000_000


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """One tensor as stored: `data` is [num_bytes] uint8, a view of the mapped file."""

    name: str
    shape: tuple[int, ...]
    type_name: str
    data: NDArray[np.uint8]

    def codes(self) -> NDArray[np.integer[Any]]:
        """Return a tensor of whole numbers (I8, I32) as it is stored, a view of the mapped file."""
        return self.data.view({"I8": "i1", "I32": "<i4"}[self.type_name]).reshape(self.shape)

    def values(self) -> NDArray[np.float32]:
        """Return a tensor of numbers (F32, F16, BF16) as a new float32 array."""
        if self.type_name == "BF16":
            return widen_bfloat16(self.data.view("<u2")).reshape(self.shape)
        stored = self.data.view("<f4" if self.type_name == "F32" else "<f2")
        return stored.reshape(self.shape).astype(np.float32)


@dataclass(frozen=True, slots=True)
class SafetensorsContent:
    """A safetensors file, mapped: tensors and metadata as its header names them.

    Attributes:
        num_data_bytes: what lies behind the header.
    """

    tensors: Mapping[str, StoredTensor]
    metadata: Mapping[str, Any]
    num_data_bytes: int


def read_safetensors(path: Path) -> dict[str, StoredTensor]:
    """Map a file of unquantised weights and return its tensors by name.

    Raises:
        ModelError: not a safetensors file, truncated, or of a type that is not known.
    """
    return dict(read_content(path, _FLOATS).tensors)


def read_content(
    path: Path, type_names: Collection[str] = tuple(_ITEM_BYTES)
) -> SafetensorsContent:
    """Map a file and return its tensors and its metadata.

    Raises:
        ModelError: not a safetensors file, truncated, or of a type that is not among `type_names`.
    """
    try:
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except ValueError as error:
        raise ModelError(f"{path} is empty; fetch it again") from error
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror or error}") from error
    header, start = _header(path, mapped)
    raw = np.frombuffer(mapped, dtype=np.uint8)[start:]
    metadata = header.pop("__metadata__", None)
    if not isinstance(metadata, dict | None):
        raise ModelError(f"{path} is corrupt: its __metadata__ is not a JSON object")
    tensors = {name: _locate(path, name, entry, raw, type_names) for name, entry in header.items()}
    return SafetensorsContent(tensors, metadata or {}, raw.size)


def _header(path: Path, mapped: mmap.mmap) -> tuple[dict[str, Any], int]:
    if len(mapped) < 8:
        raise ModelError(f"{path} is not a safetensors file: it has {len(mapped)} bytes")
    (header_len,) = struct.unpack("<Q", mapped[:8])
    if header_len > _MAX_HEADER_BYTES:
        raise ModelError(f"{path} is not a safetensors file: its header would be {header_len:,} B")
    if 8 + header_len > len(mapped):
        raise ModelError(
            f"{path} is truncated: its header needs {8 + header_len:,} bytes but the file has "
            f"{len(mapped):,}; fetch it again"
        )
    try:
        header = json.loads(mapped[8 : 8 + header_len])
    except ValueError as error:
        raise ModelError(f"{path} is not a safetensors file: its header is not JSON") from error
    if not isinstance(header, dict):
        raise ModelError(f"{path} is not a safetensors file: its header is not a JSON object")
    return header, 8 + header_len


def _locate(
    path: Path,
    name: str,
    entry: Mapping[str, Any],
    raw: NDArray[np.uint8],
    type_names: Collection[str],
) -> StoredTensor:
    try:
        type_name, shape = str(entry["dtype"]), tuple(int(length) for length in entry["shape"])
        begin, end = (int(offset) for offset in entry["data_offsets"])
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{path} is corrupt: its entry of {name!r} is broken") from error
    if type_name not in type_names:
        raise ModelError(
            f"{path}: tensor {name!r} is stored as {type_name}; {', '.join(type_names)} can be "
            "read, so fetch an unquantised model"
        )
    if end > raw.size:
        raise ModelError(
            f"{path} is truncated: tensor {name!r} ends at byte {end:,} of {raw.size:,}; fetch it "
            "again"
        )
    if begin < 0 or end - begin != _ITEM_BYTES[type_name] * int(np.prod(shape, dtype=np.int64)):
        raise ModelError(f"{path} is corrupt: tensor {name!r} {shape} has {end - begin:,} bytes")
    return StoredTensor(name, shape, type_name, raw[begin:end])
