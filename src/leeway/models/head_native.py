"""A draft head that came inside a model's own files, as `HeadFiles`.

In: the head's numbers and, by canonical name, something that reads each tensor. Out: `HeadFiles`.
What a format calls its tensors is the business of `models.head_gguf` and `models.head_hf`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from leeway.core.errors import ModelError
from leeway.models.base import ModelFiles
from leeway.models.head_base import HeadSpec
from leeway.models.head_shapes import check_head_tensors


def borrowed(target: ModelFiles, name: str, own_name: str) -> NativeTensor:
    """Return one of the model's own tensors as one of the head's."""
    values = target.tensor(name)
    return NativeTensor(own_name, "F32", values.shape, values.view(np.uint8), values.copy)


@dataclass(frozen=True, slots=True)
class NativeTensor:
    """One tensor of the checkpoint under its canonical use.

    Attributes:
        own_name: what the checkpoint calls it.
        type_name: how it is stored.
        shape: as `tensor` of the head gives it.
        data: the stored bytes, for the checksum.
        read: gives the float32 values, brought into canonical order.
    """

    own_name: str
    type_name: str
    shape: tuple[int, ...]
    data: NDArray[np.uint8]
    read: Callable[[], NDArray[np.float32]]


class NativeHead:
    """A head of one module that drafts one token, or more if applied to its own state."""

    def __init__(self, source: str, target: ModelFiles, tensors: dict[str, NativeTensor]) -> None:
        """Check that the tensors are those of a head whose layer is like the target's own.

        Raises:
            ModelError: a tensor is missing, of the wrong shape or one too many.
        """
        self.source = source
        self.name = f"{target.name}-native"
        self.spec = HeadSpec(
            decoder=replace(target.spec, num_layers=1),
            depth=1,
            draft_token_ids=None,
            target_sha256=None,
            training={},
        )
        if target.has_tensor("rope_factors"):
            tensors["rope_factors"] = borrowed(target, "rope_factors", "rope_factors")
        self._tensors = tensors

        def own_name(canonical: str) -> str:
            return tensors[canonical].own_name if canonical in tensors else canonical

        shapes = {name: tensor.shape for name, tensor in tensors.items()}
        check_head_tensors(source, self.spec, shapes, own_name)

    @property
    def tensors(self) -> Mapping[str, NativeTensor]:
        """All tensors by canonical name."""
        return self._tensors

    def tensor(self, name: str) -> NDArray[np.float32]:
        """Return one tensor by canonical name. Raises ModelError naming a missing tensor."""
        if name not in self._tensors:
            raise ModelError(f"the draft head of {self.source} has no tensor {name!r}")
        return self._tensors[name].read()

    def has_tensor(self, name: str) -> bool:
        """Return whether a tensor of this canonical name exists."""
        return name in self._tensors

    def sha256(self) -> str:
        """Return a checksum over the head's own tensors as stored, in name order (hex)."""
        return self._sha256

    @cached_property
    def _sha256(self) -> str:
        whole = hashlib.sha256()
        for own_name, tensor in sorted((item.own_name, item) for item in self._tensors.values()):
            whole.update(own_name.encode() + b"\0")
            whole.update(tensor.data.tobytes())
        return whole.hexdigest()


def canonical_head_name(
    source: str, own: str, part: str, head_names: Mapping[str, str], layer_names: Mapping[str, str]
) -> str:
    """Return the canonical name of one of the head's tensors.

    Args:
        source: of the head, for people.
        own: what the checkpoint calls the tensor.
        part: the same without what leads to the head.
        head_names: canonical names by part, beside the layer's.
        layer_names: canonical names within a layer, by part.

    Raises:
        ModelError: a head has no such tensor.
    """
    if part in layer_names:
        return f"layers.0.{layer_names[part]}"
    if part in head_names:
        return head_names[part]
    raise ModelError(
        f"{source}: tensor {own!r} has no place in a draft head; leaving it out would give "
        "other drafts, so this head cannot be used"
    )


def refuse_several_modules(source: str, count: int) -> None:
    """Refuse a checkpoint with several modules of different weights.

    Each of them was trained for one distance only; running the first again and again, or all of
    them in turn, is not supported here.

    Raises:
        ModelError: `count` is more than one.
    """
    if count > 1:
        raise ModelError(
            f"{source} has {count} draft modules of different weights; heads of one module can be "
            "used: decode without them (--drafter ngram), or make a head with `leeway heads train`"
        )
