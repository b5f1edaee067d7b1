"""Reading weights ahead: matrices are decoded from the file and encoded while the graph is built.

In: tensors by name and the order in which the graph wants its matrices. Out: the same matrices,
encoded, in that order. Only a few are held at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from leeway.backends.openvino.weights import EncodedMatrix, encode
from leeway.core.errors import ModelError

_NUM_AHEAD = 8


class Tensors(Protocol):
    """Tensors by canonical name, of a model or of a draft head."""

    def tensor(self, name: str) -> NDArray[np.float32]:
        """Return one tensor. Raises ModelError naming a missing one."""
        ...

    def has_tensor(self, name: str) -> bool:
        """Return whether a tensor of this canonical name exists."""
        ...


@dataclass(frozen=True, slots=True)
class MatrixRequest:
    """One matrix of the graph: the tensors `names` stacked along the outputs, in form `kind`."""

    names: tuple[str, ...]
    kind: str


def encoded_matrices(
    tensors: Tensors, requests: Sequence[MatrixRequest], *, num_threads: int
) -> Iterator[EncodedMatrix]:
    """Yield the matrices in order, encoded by `num_threads` threads ahead of their use.

    Raises:
        ModelError: a tensor is missing or corrupt.
    """

    def read(request: MatrixRequest) -> EncodedMatrix:
        parts = [_finite(name, tensors.tensor(name)) for name in request.names]
        return encode(parts[0] if len(parts) == 1 else np.concatenate(parts), request.kind)

    with ThreadPoolExecutor(num_threads, thread_name_prefix="leeway-weights") as pool:
        pending: deque[Future[EncodedMatrix]] = deque()
        for request in requests:
            pending.append(pool.submit(read, request))
            if len(pending) > _NUM_AHEAD:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def _finite(name: str, tensor: NDArray[np.float32]) -> NDArray[np.float32]:
    if not np.isfinite(tensor.sum(dtype=np.float64)):
        raise ModelError(
            f"tensor {name!r} holds a number that is not finite; the file is corrupt or was "
            "converted wrongly: fetch or convert it again"
        )
    return tensor
