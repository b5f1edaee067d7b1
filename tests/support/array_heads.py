"""A `HeadFiles` over arrays in memory: tiny random draft heads without a file."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from leeway.core.errors import ModelError
from leeway.models.head_base import HeadSpec
from tests.support.tiny_heads import random_head_tensors, tiny_head_spec


class ArrayHead:
    """Tensors under canonical names; `optional` names those that the target would lend."""

    name = "tiny-head"

    def __init__(
        self,
        family: str = "llama",
        *,
        seed: int = 5,
        optional: tuple[str, ...] = (),
        **spec_changes: Any,
    ) -> None:
        self.spec: HeadSpec = tiny_head_spec(family, **spec_changes)
        self.tensors = random_head_tensors(self.spec, seed, optional)

    def tensor(self, name: str) -> NDArray[np.float32]:
        if name not in self.tensors:
            raise ModelError(f"tiny head has no tensor {name!r}")
        return self.tensors[name]

    def has_tensor(self, name: str) -> bool:
        return name in self.tensors

    def sha256(self) -> str:
        return "1" * 64
