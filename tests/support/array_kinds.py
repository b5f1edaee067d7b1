"""Array libraries and devices that the laws run on, for tests that try them all."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leeway.acceptance.base import RowPair


@dataclass(frozen=True)
class ArrayKind:
    """NumPy, or torch on a device."""

    name: str

    @property
    def device(self) -> str:
        """Where arrays lie."""
        return self.name.removeprefix("torch-")

    def array(self, values: Any) -> Any:
        """Return a copy of values as an array of this kind, in their own precision."""
        copy = np.array(values, order="C")
        return copy if self.name == "numpy" else torch_or_skip().tensor(copy, device=self.device)

    def rows(self, rows: RowPair) -> RowPair:
        """Return a row pair of this kind."""
        values = (getattr(rows, field.name) for field in fields(rows))
        return RowPair(*(None if value is None else self.array(value) for value in values))


def numbers(values: Any) -> np.ndarray:
    """Return an array of any kind as NumPy's."""
    return np.asarray(values.cpu() if hasattr(values, "cpu") else values)


def torch_or_skip() -> Any:
    """Return torch, or skip the test where it or its array namespace is absent."""
    pytest.importorskip("array_api_compat")
    return pytest.importorskip("torch")


def _has_cuda() -> bool:
    if not Path("/dev/nvidiactl").exists():  # importing torch to learn it would take seconds
        return False
    return bool(torch_or_skip().cuda.is_available())


TORCH_KINDS = [ArrayKind("torch-cpu"), *([ArrayKind("torch-cuda")] if _has_cuda() else [])]
KINDS = [ArrayKind("numpy"), *TORCH_KINDS]
