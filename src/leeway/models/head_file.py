"""A draft head in Leeway's own file format: reading and writing.

In: a path, or float32 tensors under the names of `models.head_base`. Out: `HeadFiles`, or a file.
The format is a safetensors file with metadata, described in docs/heads.md: matrices in int8 with
one 16-bit scale for 64 columns, or in 16 or 32 bit; vectors in 16 or 32 bit. Neither torch nor the
safetensors package is needed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from leeway.core.errors import ModelError
from leeway.models.head_base import HeadSpec
from leeway.models.head_metadata import HeadMetadata, read_metadata, write_metadata
from leeway.models.head_shapes import check_head_tensors
from leeway.models.safetensors_container import SafetensorsContent, StoredTensor, read_content

SUFFIX = ".safetensors"
GROUP_LEN = 64
_IDS, _SCALE = "draft_token_ids", ".scale"
_TYPE_NAMES = {"<f4": "F32", "<f2": "F16", "<i4": "I32", "|i1": "I8"}

Floats = NDArray[np.float32]
Stored = dict[str, NDArray[np.generic]]


class HeadFile:
    """An opened head file; satisfies `HeadFiles`."""

    def __init__(self, path: Path) -> None:
        """Open and check the file.

        Raises:
            ModelError: the file cannot be read, is truncated, is no head, is of another version,
                or its tensors are not those that its metadata asks for; the message names which.
        """
        content = read_content(path)
        self.path = path
        self.name = path.stem
        self.metadata: HeadMetadata = read_metadata(content.metadata, str(path))
        self.num_bytes = path.stat().st_size
        self.spec = HeadSpec(
            decoder=self.metadata.decoder,
            depth=self.metadata.depth,
            draft_token_ids=_read_ids(path, content, self.metadata.decoder.vocab_size),
            target_sha256=self.metadata.target_sha256,
            training=self.metadata.training,
        )
        self.stored = dict(content.tensors)
        _check_stored(path, content)
        shapes = {
            name: tensor.shape
            for name, tensor in self.stored.items()
            if name != _IDS and not name.endswith(_SCALE)
        }
        check_head_tensors(str(path), self.spec, shapes)

    def tensor(self, name: str) -> Floats:
        """Return one tensor by canonical name.

        Raises:
            ModelError: there is none of this name, or it holds a number that is not finite.
        """
        if not self.has_tensor(name):
            raise ModelError(f"{self.path} has no tensor {name!r}")
        stored = self.stored[name]
        if stored.type_name == "I8":
            values = _decode(stored.codes(), self.stored[name + _SCALE].values())
        else:
            values = stored.values()
        if not np.isfinite(values).all():
            raise ModelError(
                f"{self.path}: tensor {name!r} holds a number that is not finite; the file is "
                "corrupt, make or fetch it again"
            )
        if name == "state_gain" and not values.all():
            raise ModelError(
                f"{self.path}: tensor {name!r} holds a zero, by which states are divided; make the "
                "head again"
            )
        return values

    def has_tensor(self, name: str) -> bool:
        """Return whether a tensor of this canonical name exists."""
        return name in self.stored and name != _IDS and not name.endswith(_SCALE)

    def sha256(self) -> str:
        """Return the checksum of the whole file (hex); read once, then remembered."""
        return self._sha256

    @cached_property
    def _sha256(self) -> str:
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def write_head(
    path: Path,
    *,
    tensors: Mapping[str, Floats],
    spec: HeadSpec,
    target_name: str,
    kind: Literal["int8", "f16"],
) -> None:
    """Write a head; the file appears whole or not at all, and equal heads give equal bytes.

    Args:
        path: where; ends in ".safetensors", the folder must exist.
        tensors: under canonical names; rounded to the stored precision.
        spec: numbers of the head; `target_sha256` must be set.
        target_name: name of the model that it fits, for people.
        kind: how matrices are stored; int8 leaves those whose rows do not divide into groups of 64
            in 16 bit. Vectors are stored in 32 bit.

    Raises:
        ModelError: tensors or numbers are not those of a head, or a number is not finite or too
            large for its form.
    """
    source = f"the head for {target_name!r}"
    check_head_tensors(source, spec, {name: values.shape for name, values in tensors.items()})
    metadata = write_metadata(spec, target_name)
    stored: Stored = {}
    if spec.draft_token_ids is not None:
        reason = _wrong_ids(spec.draft_token_ids, spec.decoder.vocab_size)
        if reason is not None:
            raise ModelError(f"{source}: {_IDS} {reason}")
        stored[_IDS] = spec.draft_token_ids.astype("<i4")
    for name, values in tensors.items():
        stored |= _encode(name, values, kind)
    for name, array in stored.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ModelError(
                f"{source}: tensor {name!r} holds a number that is not finite in {array.dtype}; "
                "the head was not trained well, so it is not written"
            )
    _write(path, metadata, stored)


def _write(path: Path, metadata: Mapping[str, str], stored: Stored) -> None:
    # Wide items first, so that every tensor is aligned to its own item.
    names = sorted(stored, key=lambda name: (-stored[name].itemsize, name))
    header: dict[str, object] = {"__metadata__": dict(metadata)}
    position = 0
    for name in names:
        array = stored[name]
        header[name] = {
            "dtype": _TYPE_NAMES[array.dtype.str],
            "shape": list(array.shape),
            "data_offsets": [position, position + array.nbytes],
        }
        position += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for name in names:
                file.write(np.ascontiguousarray(stored[name]).tobytes())
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise ModelError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)


def _encode(name: str, values: Floats, kind: str) -> Stored:
    """Return the arrays that store one tensor, by their names in the file."""
    if values.ndim == 1:
        return {name: values.astype("<f4")}
    if kind == "f16" or values.shape[1] % GROUP_LEN:
        with np.errstate(over="ignore"):  # what overflows is refused by the caller
            return {name: values.astype("<f2")}
    groups = values.reshape(len(values), -1, GROUP_LEN)
    with np.errstate(over="ignore", invalid="ignore"):
        scales = (np.abs(groups).max(axis=2) / np.float32(127)).astype("<f2")
        divisors = np.where(scales == 0, np.float32(1), scales.astype(np.float32))[..., None]
        codes = np.clip(np.rint(groups / divisors), -127, 127).astype("i1")
    return {name: codes.reshape(values.shape), name + _SCALE: scales}


def _decode(codes: NDArray[np.integer], scales: Floats) -> Floats:
    groups = codes.reshape(*scales.shape, GROUP_LEN).astype(np.float32)
    groups *= scales[..., None]
    return groups.reshape(codes.shape)


def _read_ids(path: Path, content: SafetensorsContent, vocab_size: int) -> NDArray[np.int64] | None:
    stored = content.tensors.get(_IDS)
    if stored is None:
        return None
    if stored.type_name != "I32" or len(stored.shape) != 1:
        raise ModelError(
            f"{path}: {_IDS} is {stored.type_name} of shape {stored.shape}; it must be I32 of one "
            "axis: make the head again"
        )
    ids = stored.codes().astype(np.int64)
    reason = _wrong_ids(ids, vocab_size)
    if reason is not None:
        raise ModelError(f"{path}: {_IDS} {reason}; make the head again")
    return ids


def _wrong_ids(ids: NDArray[np.int64], vocab_size: int) -> str | None:
    """Return in words why these are no ids of a draft vocabulary, or None."""
    if ids.ndim != 1 or ids.size == 0:
        return "is empty; absent means the whole vocabulary"
    falls = np.flatnonzero(np.diff(ids) <= 0)
    if falls.size:
        place = int(falls[0])
        return f"is not ascending: {ids[place]} stands before {ids[place + 1]}"
    if ids[0] < 0 or ids[-1] >= vocab_size:
        outside = ids[0] if ids[0] < 0 else ids[-1]
        return f"has {outside}, which is outside the vocabulary of {vocab_size} tokens"
    return None


def _check_stored(path: Path, content: SafetensorsContent) -> None:
    """Check types, scales and that the tensors fill the file.

    Raises:
        ModelError: naming the first tensor that is wrong.
    """
    tensors = content.tensors
    for name, tensor in tensors.items():
        if name == _IDS:
            continue
        if name.endswith(_SCALE):
            of = tensors.get(name.removesuffix(_SCALE))
            if of is None or of.type_name != "I8":
                raise ModelError(f"{path}: tensor {name!r} scales nothing: make the head again")
            continue
        if tensor.type_name == "I32":
            raise ModelError(
                f"{path}: tensor {name!r} is stored as I32; weights are I8, F16, BF16 or F32"
            )
        if tensor.type_name == "I8":
            _check_scale(path, tensor, tensors.get(name + _SCALE))
    used = sum(tensor.data.size for tensor in tensors.values())
    if used != content.num_data_bytes:
        raise ModelError(
            f"{path} is corrupt: its tensors take {used:,} bytes but {content.num_data_bytes:,} "
            "lie behind its header; make or fetch it again"
        )


def _check_scale(path: Path, tensor: StoredTensor, scale: StoredTensor | None) -> None:
    if len(tensor.shape) != 2 or tensor.shape[1] % GROUP_LEN:
        raise ModelError(
            f"{path}: tensor {tensor.name!r} of shape {tensor.shape} is stored as I8; that takes a "
            f"matrix whose rows divide into groups of {GROUP_LEN}"
        )
    wanted = (tensor.shape[0], tensor.shape[1] // GROUP_LEN)
    if scale is None or scale.type_name != "F16" or scale.shape != wanted:
        found = "is missing" if scale is None else f"is {scale.type_name} of shape {scale.shape}"
        raise ModelError(
            f"{path}: tensor {tensor.name + _SCALE!r} {found}; it must be F16 of shape {wanted}: "
            "make the head again"
        )
