"""The graph of a draft head: the native multi-token-prediction form of `models.head_base`.

In: a head's files and its target's. Out: an `openvino.Model` with one input more than a whole
model's, `states` [tokens, hidden_size]: for each token id the state at the position before it.
"""

from __future__ import annotations

import numpy as np
import openvino as ov
import openvino.opset13 as ops
from numpy.typing import NDArray

from leeway.backends.openvino.decoder_layers import STATES, LayerGraph, layer_requests
from leeway.backends.openvino.weight_reader import MatrixRequest, encoded_matrices
from leeway.backends.openvino.weights import EncodedMatrix, WeightForm
from leeway.models.base import ModelFiles
from leeway.models.head_base import HeadFiles


class HeadTensors:
    """A head's tensors, with the target's own where the head leaves them out."""

    def __init__(self, head: HeadFiles, target: ModelFiles) -> None:
        self._head = head
        self._target = target

    def has_tensor(self, name: str) -> bool:
        """Return whether either has the tensor for the head to use."""
        return self._head.has_tensor(name) or (
            name in {"embed", "output", "rope_factors"} and self._target.has_tensor(name)
        )

    def tensor(self, name: str) -> NDArray[np.float32]:
        """Return one tensor. Raises ModelError naming a missing one."""
        if self._head.has_tensor(name) or name not in {"embed", "output", "rope_factors"}:
            return self._head.tensor(name)
        if name != "output":
            return self._target.tensor(name)
        rows = self._target.tensor("embed" if self._target.spec.tied_output else "output")
        ids = self._head.spec.draft_token_ids
        return rows if ids is None else rows[ids]


def build_head_graph(
    head: HeadFiles,
    target: ModelFiles,
    form: WeightForm,
    *,
    embedding: EncodedMatrix | None = None,
    attention: str = "f32",
    num_threads: int = 1,
) -> tuple[ov.Model, EncodedMatrix]:
    """Build the graph; results are `logits` [logit_rows, draft vocabulary] and `hidden`.

    `embedding` is the target's, already encoded: its memory is shared, not copied. Without it, and
    for a head with an embedding of its own, one is encoded. The one in use comes back.

    Raises:
        ModelError: a tensor is missing or corrupt.
    """
    spec, tensors = head.spec.decoder, HeadTensors(head, target)
    graph = LayerGraph(tensors, spec, attention, form.product_len)
    requests = [
        MatrixRequest(("project",), form.kind),
        *layer_requests(spec, form),
        MatrixRequest(("output",), form.output_kind),
    ]
    if embedding is None or head.has_tensor("embed"):
        requests.append(MatrixRequest(("embed",), form.output_kind))
    for request, encoded in zip(
        requests, encoded_matrices(tensors, requests, num_threads=num_threads), strict=True
    ):
        if request.names == ("embed",):
            embedding = encoded
        else:
            graph.add_matrix(request.names, encoded)
    assert embedding is not None
    graph.add_embedding(embedding)
    states = graph.add_input(STATES, [-1, spec.hidden_size], ov.Type.f32)
    state_norm = "final_norm"
    if head.has_tensor("state_gain"):
        state_norm = "state_gain"
        gain = ops.constant(head.tensor(state_norm).reshape(1, -1))
        states = ops.divide(states, gain)
    both = [graph.rms(graph.embedded(), "embed_norm"), graph.rms(states, "hidden_norm")]
    rows = graph.layers(graph.linear(ops.concat(both, -1), "project"))
    return graph.finish(rows, head.name, state_norm), embedding
