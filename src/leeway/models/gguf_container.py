"""The GGUF container: header, metadata and the place of every tensor; no meaning of either.

In: a path. Out: a metadata dict and memory-mapped raw tensors. What architecture the tensors form
is `models.gguf`'s business, what their bytes decode to is `models.dequantise`'s.

Source: the GGUF specification, versions 2 and 3 (ggml/docs/gguf.md).
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from numpy.typing import NDArray

from leeway.core.errors import ModelError

MAGIC = b"GGUF"
_SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_STRING, _ARRAY = 8, 9
_MAX_DIMENSIONS = 4


@dataclass(frozen=True, slots=True)
class RawTensor:
    """One tensor as stored.

    Attributes:
        shape: slowest axis first, so a linear weight is (out_features, in_features).
        data: the stored bytes, [num_bytes] uint8, a view of the mapped file.
    """

    name: str
    shape: tuple[int, ...]
    type_name: str
    data: NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Container:
    """A GGUF file, mapped: `metadata` by key, `tensors` by the file's own names."""

    path: Path
    metadata: Mapping[str, Any]
    tensors: Mapping[str, RawTensor]


def read_container(path: Path) -> Container:
    """Map a GGUF file and read its header.

    Raises:
        ModelError: not a GGUF file, an unknown version, a truncated or corrupt file, an unknown
            quantisation.
    """
    try:
        with path.open("rb") as file:
            magic = file.read(4)
            if magic != MAGIC:
                raise ModelError(
                    f"{path} is not a GGUF file: it begins with {magic!r}, not {MAGIC!r}; "
                    "give a .gguf file, a Hugging Face folder or a name from `leeway models`"
                )
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror or error}") from error
    header = _Header(path, mapped)
    version = header.unsigned("I")
    if version not in (2, 3):
        hint = " (a big-endian file)" if version in (2 << 24, 3 << 24) else ""
        raise ModelError(
            f"{path} has GGUF version {version}{hint}; versions 2 and 3, little-endian, can be "
            "read: convert the model again with a current converter"
        )
    num_tensors, num_pairs = header.unsigned("Q"), header.unsigned("Q")
    metadata: dict[str, Any] = {}
    for _ in range(num_pairs):
        key = header.string()
        metadata[key] = header.value(header.unsigned("I"))
    infos = [header.tensor_info() for _ in range(num_tensors)]
    start = header.data_start(metadata.get("general.alignment", 32))
    raw = np.frombuffer(mapped, dtype=np.uint8)
    tensors = {info.name: _locate(path, info, raw, start) for info in infos}
    return Container(path, metadata, tensors)


@dataclass(frozen=True, slots=True)
class _TensorInfo:
    name: str
    shape: tuple[int, ...]
    type_code: int
    offset: int


def _locate(path: Path, info: _TensorInfo, raw: NDArray[np.uint8], start: int) -> RawTensor:
    try:
        quantisation = GGMLQuantizationType(info.type_code)
        block_len, block_bytes = GGML_QUANT_SIZES[quantisation]
    except (ValueError, KeyError):
        raise ModelError(
            f"{path}: tensor {info.name!r} has unknown quantisation type {info.type_code}; "
            f"known are {', '.join(kind.name for kind in GGML_QUANT_SIZES)}"
        ) from None
    num_elements = 1
    for length in info.shape:
        num_elements *= length
    if info.shape[-1] % block_len:
        raise ModelError(
            f"{path}: tensor {info.name!r} of shape {info.shape} does not divide into "
            f"{quantisation.name} blocks of {block_len}; the file is corrupt, fetch it again"
        )
    num_bytes = num_elements // block_len * block_bytes
    begin = start + info.offset
    if begin + num_bytes > raw.size:
        raise ModelError(
            f"{path} is truncated: tensor {info.name!r} ends at byte {begin + num_bytes:,} but the "
            f"file has {raw.size:,} bytes; fetch it again"
        )
    return RawTensor(info.name, info.shape, quantisation.name, raw[begin : begin + num_bytes])


class _Header:
    """A cursor over the header; every read is checked against the end of the file."""

    def __init__(self, path: Path, mapped: mmap.mmap) -> None:
        self._path = path
        self._buffer = mapped
        self._size = len(mapped)
        self.position = len(MAGIC)

    def unsigned(self, code: str) -> int:
        return int(self._scalar(code))

    def _scalar(self, code: str) -> float:
        (value,) = struct.unpack("<" + code, self._take(struct.calcsize("<" + code)))
        return value  # type: ignore[no-any-return]

    def string(self) -> str:
        try:
            return self._take(self.unsigned("Q")).decode("utf-8")
        except UnicodeDecodeError as error:
            raise self._corrupt(f"a string near byte {self.position:,} is not UTF-8") from error

    def value(self, kind: int) -> object:
        if kind in _SCALARS:
            return self._scalar(_SCALARS[kind])
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            return self._array(self.unsigned("I"), self.unsigned("Q"))
        raise self._corrupt(f"unknown metadata type {kind} near byte {self.position:,}")

    def tensor_info(self) -> _TensorInfo:
        name = self.string()
        num_dimensions = self.unsigned("I")
        if not 1 <= num_dimensions <= _MAX_DIMENSIONS:
            raise self._corrupt(f"tensor {name!r} has {num_dimensions} dimensions")
        dimensions = [self.unsigned("Q") for _ in range(num_dimensions)]
        if 0 in dimensions:
            raise self._corrupt(f"tensor {name!r} has an empty dimension: {dimensions}")
        return _TensorInfo(
            name, tuple(reversed(dimensions)), self.unsigned("I"), self.unsigned("Q")
        )

    def data_start(self, alignment: object) -> int:
        if not isinstance(alignment, int) or alignment < 1:
            raise self._corrupt(f"it asks for alignment {alignment!r}")
        return -(-self.position // alignment) * alignment

    def _array(self, kind: int, count: int) -> object:
        if kind in _SCALARS:
            code = _SCALARS[kind]
            raw = self._take(count * struct.calcsize("<" + code))
            return np.frombuffer(raw, dtype="<" + code)
        if kind == _STRING:
            return self._strings(count)
        return [self.value(kind) for _ in range(count)]

    def _strings(self, count: int) -> list[str]:
        """Read the vocabulary's arrays of 50,000 strings and more: the loop that start-up feels."""
        buffer, position, size = self._buffer, self.position, self._size
        unpack = struct.Struct("<Q").unpack_from
        strings = []
        try:
            for _ in range(count):
                (length,) = unpack(buffer, position)
                begin = position + 8
                position = begin + length
                if position > size:
                    raise self._truncated()
                strings.append(buffer[begin:position].decode("utf-8"))
        except struct.error:
            raise self._truncated() from None
        except UnicodeDecodeError as error:
            raise self._corrupt(f"a string near byte {position:,} is not UTF-8") from error
        self.position = position
        return strings

    def _take(self, count: int) -> bytes:
        end = self.position + count
        if end > self._size:
            raise self._truncated()
        taken = self._buffer[self.position : end]
        self.position = end
        return taken

    def _truncated(self) -> ModelError:
        return ModelError(
            f"{self._path} is truncated or corrupt: its header runs past the end of the file "
            f"({self._size:,} bytes); fetch it again"
        )

    def _corrupt(self, reason: str) -> ModelError:
        return ModelError(f"{self._path} is corrupt: {reason}; fetch it again")
