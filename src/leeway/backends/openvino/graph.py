"""The graph: a decoder of the llama, qwen2 and qwen3 families for one ArchitectureSpec.

In: a spec and tensors by canonical name. Out: an `openvino.Model` over flat token rows with paged
attention. Tokens of all sequences of a forward lie one behind the other on one axis; the inputs of
`INPUT_NAMES` say where each sequence begins and which cache blocks are its own.

The paged-attention operator is placed directly instead of being produced by a pass over a stateful
graph, and query, key and value as well as gate and up are one matrix each: the fewer operators,
the less time goes into calling them. The operator is private to the pinned runtime version;
`tests/unit/backends/openvino/test_backend.py` is the gate for a new one.
"""

from __future__ import annotations

import numpy as np
import openvino as ov
import openvino.opset13 as ops
from numpy.typing import DTypeLike, NDArray

from leeway.backends.openvino.weight_reader import MatrixRequest, encoded_matrices
from leeway.backends.openvino.weights import WeightForm, weight_node
from leeway.models.base import ArchitectureSpec, ModelFiles

BLOCK_LEN = 32
"""Token slots of a cache block; the CPU operator accepts no other number."""

INPUT_NAMES = (
    "input_ids",
    "position_ids",
    "logit_rows",
    "past_lens",
    "subsequence_begins",
    "block_indices",
    "block_indices_begins",
    "max_context_len",
)


def build_graph(
    files: ModelFiles, form: WeightForm, *, attention: str = "f32", num_threads: int = 1
) -> ov.Model:
    """Build the graph; results are `logits` [logit_rows, vocab] and `hidden` [tokens, hidden].

    `attention` is the element type in which the attention operator works; `num_threads` threads
    encode weights.

    Raises:
        ModelError: a tensor is missing or corrupt.
    """
    builder = _GraphBuilder(files, attention)
    requests = _matrix_requests(files.spec, form)
    for request, encoded in zip(
        requests, encoded_matrices(files, requests, num_threads=num_threads), strict=True
    ):
        builder.add_matrix(request.names, weight_node(encoded))
    return builder.finish()


def _matrix_requests(spec: ArchitectureSpec, form: WeightForm) -> list[MatrixRequest]:
    """Every matrix in the order in which the graph uses it."""
    requests = [MatrixRequest(("embed",), form.output_kind)]
    for layer in range(spec.num_layers):
        prefix = f"layers.{layer}."
        for names in (("q", "k", "v"), ("o",), ("gate", "up"), ("down",)):
            requests.append(MatrixRequest(tuple(prefix + name for name in names), form.kind))
    if not spec.tied_output:
        requests.append(MatrixRequest(("output",), form.output_kind))
    return requests


class _GraphBuilder:
    """Collects the matrices, then joins them to a graph."""

    def __init__(self, files: ModelFiles, attention: str) -> None:
        self.files = files
        self.spec: ArchitectureSpec = files.spec
        self.attention = attention
        self.matrices: dict[tuple[str, ...], ov.Node] = {}
        self.params: list[ov.Node] = []
        self.inputs: dict[str, ov.Node] = {
            name: self._input(name, [] if name == "max_context_len" else [-1], ov.Type.i32)
            for name in INPUT_NAMES
        }

    def add_matrix(self, names: tuple[str, ...], node: ov.Node) -> None:
        """Take the node that yields the stacked tensors `names`."""
        self.matrices[names] = node

    def finish(self) -> ov.Model:
        """Return the graph."""
        spec, inputs = self.spec, self.inputs
        embed = self.matrices["embed",]
        rows = ops.gather(embed, inputs["input_ids"], _int64(0))
        cos, sin = self._rotary_tables()
        for layer in range(spec.num_layers):
            prefix = f"layers.{layer}."
            rows = ops.add(rows, self._attention(layer, prefix, rows, cos, sin))
            rows = ops.add(rows, self._feed_forward(prefix, rows))
        hidden = self._rms(rows, "final_norm")
        output = embed if spec.tied_output else self.matrices["output",]
        picked = ops.gather(hidden, inputs["logit_rows"], _int64(0))
        results = []
        for name, node in (
            ("logits", ops.matmul(picked, output, False, True)),
            ("hidden", hidden),
        ):
            result = ops.result(node)
            result.output(0).set_names({name})
            results.append(result)
        return ov.Model(results, self.params, self.files.name)

    def _input(self, name: str, shape: list[int], dtype: ov.Type) -> ov.Node:
        param = ops.parameter(shape, dtype, name=name)
        param.output(0).set_names({name})
        self.params.append(param)
        return param

    def _linear(self, rows: ov.Node, prefix: str, *names: str) -> ov.Node:
        full_names = tuple(prefix + name for name in names)
        product = ops.matmul(rows, self.matrices[full_names], False, True)
        if self.files.has_tensor(f"{full_names[0]}_bias"):
            bias = np.concatenate([self.files.tensor(f"{name}_bias") for name in full_names])
            product = ops.add(product, ops.constant(bias.reshape(1, -1)))
        return product

    def _rms(self, rows: ov.Node, name: str) -> ov.Node:
        """Root-mean-square norm over the last axis, spelt so that the runtime fuses it."""
        weight = self.files.tensor(name)
        lead = [1] * (rows.get_output_partial_shape(0).rank.get_length() - 1)
        square = ops.power(rows, _scalar(2, lead))
        mean = ops.reduce_mean(square, _int64([-1]), True)
        root = ops.sqrt(ops.add(mean, _scalar(self.spec.norm_eps, lead)))
        normed = ops.multiply(rows, ops.divide(_scalar(1, lead), root))
        return ops.multiply(normed, ops.constant(weight.reshape([*lead, -1])))

    def _rotary_tables(self) -> tuple[ov.Node, ov.Node]:
        """Cosine and sine of each token's position, [tokens, 1, 1, head_size]."""
        spec = self.spec
        exponents = np.arange(0, spec.head_size, 2, dtype=np.float64) / spec.head_size
        frequencies = spec.rope_base**-exponents
        if self.files.has_tensor("rope_factors"):
            frequencies = frequencies / self.files.tensor("rope_factors").astype(np.float64)
        half = frequencies.astype(np.float32)
        lanes = ops.constant(np.concatenate([half, half]).reshape(1, 1, 1, -1))
        positions = ops.convert(self.inputs["position_ids"], "f32")
        angles = ops.multiply(ops.reshape(positions, _int64([-1, 1, 1, 1]), False), lanes)
        return ops.cos(angles), ops.sin(angles)

    def _rotated(self, heads: ov.Node, cos: ov.Node, sin: ov.Node) -> ov.Node:
        half = self.spec.head_size // 2
        axis, step = _int64([3]), _int64([1])
        upper = ops.slice(heads, _int64([half]), _int64([2**63 - 1]), step, axis)
        lower = ops.slice(heads, _int64([0]), _int64([half]), step, axis)
        minus_one = ops.constant(np.full((1, 1, 1, 1), -1, np.float32))
        turned = ops.concat([ops.multiply(upper, minus_one), lower], -1)
        return ops.add(ops.multiply(heads, cos), ops.multiply(turned, sin))

    def _attention(
        self, layer: int, prefix: str, rows: ov.Node, cos: ov.Node, sin: ov.Node
    ) -> ov.Node:
        spec = self.spec
        normed = self._rms(rows, f"{prefix}attn_norm")
        joined = self._linear(normed, prefix, "q", "k", "v")
        num_heads = {"q": spec.num_heads, "k": spec.num_kv_heads, "v": spec.num_kv_heads}
        widths = [count * spec.head_size for count in num_heads.values()]
        parts = ops.variadic_split(joined, _int64(1), _int64(widths)).outputs()
        operands = []
        for (name, count), part in zip(num_heads.items(), parts, strict=True):
            if name != "v":
                heads = ops.reshape(part, _int64([-1, count, 1, spec.head_size]), False)
                if spec.qk_norm:
                    heads = self._rms(heads, f"{prefix}{name}_norm")
                turned = self._rotated(heads, cos, sin)
                flat = _int64([-1, count * spec.head_size])
                part = ops.reshape(turned, flat, False).output(0)  # noqa: PLW2901
            operands.append(part)
        mixed = self._paged_attention(layer, *operands)
        return self._linear(mixed, prefix, "o")

    def _paged_attention(
        self, layer: int, query: ov.Output, key: ov.Output, value: ov.Output
    ) -> ov.Output:
        spec, inputs = self.spec, self.inputs
        rows = [query, key, value]
        if self.attention != "f32":
            rows = [ops.convert(part, self.attention).output(0) for part in rows]
        caches = [
            self._input(f"{kind}_cache.{layer}", [-1, -1, -1, -1], ov.Type.dynamic)
            for kind in ("key", "value")
        ]
        # Behind the live inputs come switches of features that this project does not use, each in
        # its empty form: alibi, sparse prefill, cache rotation, eviction scores, sinks ...
        operands = [
            *caches,
            *(inputs[name] for name in INPUT_NAMES[3:7]),
            _float32(spec.head_size**-0.5),
            _int32(0),
            _empty(np.float32),
            inputs["max_context_len"],
            *(_empty(dtype) for dtype in (np.int32, np.int32, np.int32, np.float32, np.float32)),
            _int32(0),
            _int32(0),
            ops.constant(np.zeros((0, 0, 0, 0), np.float32)),
            _int32(0),
            *(_empty(np.int32) for _ in range(4)),
            _empty(np.uint8),
            _empty(np.int32),
        ]
        node = ov.op._PagedAttentionExtension(rows + [operand.output(0) for operand in operands])
        info = node.get_rt_info()
        for kind in ("k", "v"):
            info[f"num_{kind}_heads"] = spec.num_kv_heads
            info[f"{kind}_head_size"] = spec.head_size
        mixed = node.output(0)
        return mixed if self.attention == "f32" else ops.convert(mixed, "f32").output(0)

    def _feed_forward(self, prefix: str, rows: ov.Node) -> ov.Node:
        normed = self._rms(rows, f"{prefix}ffn_norm")
        joined = self._linear(normed, prefix, "gate", "up")
        size = self.spec.ffn_size
        gate, up = ops.variadic_split(joined, _int64(1), _int64([size, size])).outputs()
        return self._linear(ops.multiply(ops.swish(gate), up), prefix, "down")


def _int64(value: int | list[int]) -> ov.Node:
    return ops.constant(np.array(value, np.int64))


def _int32(value: int) -> ov.Node:
    return ops.constant(np.array(value, np.int32))


def _float32(value: float) -> ov.Node:
    return ops.constant(np.array(value, np.float32))


def _empty(dtype: DTypeLike) -> ov.Node:
    return ops.constant(np.zeros(0, dtype))


def _scalar(value: float, lead: list[int]) -> ov.Node:
    array: NDArray[np.float32] = np.full([*lead, 1], value, np.float32)
    return ops.constant(array)
