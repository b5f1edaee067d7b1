"""The graph: a whole decoder of the llama, qwen2 and qwen3 families for one ArchitectureSpec.

In: a spec and tensors by canonical name. Out: an `openvino.Model` from token ids to logits, and the
embedding, which a draft head shares.
"""

from __future__ import annotations

import openvino as ov

from leeway.backends.openvino.decoder_layers import LayerGraph, layer_requests
from leeway.backends.openvino.weight_reader import MatrixRequest, encoded_matrices
from leeway.backends.openvino.weights import EncodedMatrix, WeightForm
from leeway.models.base import ModelFiles


def build_graph(
    files: ModelFiles, form: WeightForm, *, attention: str = "f32", num_threads: int = 1
) -> tuple[ov.Model, EncodedMatrix]:
    """Build the graph; results are `logits` [logit_rows, vocab] and `hidden` [tokens, hidden].

    `attention` is the element type in which the attention operator works; `num_threads` threads
    encode weights. The embedding that comes back is the graph's own memory, not a copy.

    Raises:
        ModelError: a tensor is missing or corrupt.
    """
    spec = files.spec
    requests = [MatrixRequest(("embed",), form.output_kind), *layer_requests(spec, form)]
    if not spec.tied_output:
        requests.append(MatrixRequest(("output",), form.output_kind))
    graph = LayerGraph(files, spec, attention, form.product_len)
    embedding = None
    for request, encoded in zip(
        requests, encoded_matrices(files, requests, num_threads=num_threads), strict=True
    ):
        if embedding is None:
            embedding = encoded
            graph.add_embedding(embedding, is_output=spec.tied_output)
        else:
            graph.add_matrix(request.names, encoded)
    assert embedding is not None
    return graph.finish(graph.layers(graph.embedded()), files.name), embedding
