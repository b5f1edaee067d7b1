"""A `ModelFiles` over arrays in memory: tiny random decoders without a file."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from leeway.core.errors import ModelError
from leeway.core.types import TokenizerData
from leeway.models.base import ArchitectureSpec
from tests.support.tiny_models import Tensors, random_tensors, tiny_spec


class ArrayFiles:
    """Tensors under canonical names; `changes` adds, replaces or (None) removes some."""

    name = "tiny"

    def __init__(
        self,
        family: str = "llama",
        *,
        seed: int = 0,
        changes: dict[str, NDArray[np.float32] | None] | None = None,
        **spec_changes: Any,
    ) -> None:
        self.spec: ArchitectureSpec = tiny_spec(family, **spec_changes)
        self.tensors: Tensors = random_tensors(self.spec, seed)
        for name, values in (changes or {}).items():
            if values is None:
                del self.tensors[name]
            else:
                self.tensors[name] = values

    @property
    def tokenizer(self) -> TokenizerData:
        raise AssertionError("a backend has no business with the tokenizer")

    def tensor(self, name: str) -> NDArray[np.float32]:
        if name not in self.tensors:
            raise ModelError(f"tiny model has no tensor {name!r}")
        return self.tensors[name]

    def has_tensor(self, name: str) -> bool:
        return name in self.tensors

    def sha256(self) -> str:
        return "0" * 64
