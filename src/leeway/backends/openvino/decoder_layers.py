"""Decoder layers: the operators of the llama, qwen2 and qwen3 families over flat token rows.

In: a spec, tensors by canonical name, matrices as graph nodes. Out: rows behind the layers. Tokens
of all sequences of a forward lie one behind the other on one axis; the inputs of `INPUT_NAMES` say
where each sequence begins and which cache blocks are its own. What comes before the first layer and
behind the last is the business of `graph` (a whole model) and `head_graph` (a draft head).

The paged-attention operator is placed directly instead of being produced by a pass over a stateful
graph, and query, key and value as well as gate and up are one matrix each: the fewer operators,
the less time goes into calling them. The operator is private to the pinned runtime version;
`tests/unit/backends/openvino/test_backend.py` is the gate for a new one.
"""

from __future__ import annotations

from functools import reduce

import numpy as np
import openvino as ov
import openvino.opset13 as ops
from numpy.typing import DTypeLike, NDArray

from leeway.backends.openvino.weight_reader import MatrixRequest, Tensors
from leeway.backends.openvino.weights import EncodedMatrix, WeightForm, pieces, weight_node
from leeway.models.base import ArchitectureSpec

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

STATES = "states"
"""One input more of a draft head: [tokens, hidden_size], float32."""


def layer_requests(spec: ArchitectureSpec, form: WeightForm) -> list[MatrixRequest]:
    """Return the matrices of every layer in the order in which the graph uses them."""
    return [
        MatrixRequest(tuple(f"layers.{layer}.{name}" for name in names), form.kind)
        for layer in range(spec.num_layers)
        for names in (("q", "k", "v"), ("o",), ("gate", "up"), ("down",))
    ]


class LayerGraph:
    """Collects inputs and matrices, and joins them to decoder layers."""

    embedding: ov.Node

    def __init__(
        self, tensors: Tensors, spec: ArchitectureSpec, attention: str, product_len: int
    ) -> None:
        """Make the inputs of `INPUT_NAMES`.

        `attention` is the element type of attention, `product_len` that of the weights' form.
        """
        self.tensors = tensors
        self.spec = spec
        self.attention = attention
        self.product_len = product_len
        self.matrices: dict[tuple[str, ...], list[ov.Node]] = {}
        self.params: list[ov.Node] = []
        self.inputs: dict[str, ov.Node] = {
            name: self.add_input(name, [] if name == "max_context_len" else [-1], ov.Type.i32)
            for name in INPUT_NAMES
        }

    def add_matrix(self, names: tuple[str, ...], matrix: EncodedMatrix) -> None:
        """Take the matrix of the stacked tensors `names`."""
        self.matrices[names] = [weight_node(part) for part in pieces(matrix, self.product_len)]

    def add_embedding(self, matrix: EncodedMatrix, *, is_output: bool = False) -> None:
        """Take the embedding, which is read where it lies, and which may be the output matrix."""
        self.embedding = weight_node(matrix, is_shared=True)
        if not is_output:
            return
        parts = pieces(matrix, self.product_len)
        is_whole = len(parts) == 1
        self.matrices["output",] = [self.embedding] if is_whole else [*map(weight_node, parts)]

    def add_input(self, name: str, shape: list[int], dtype: ov.Type) -> ov.Node:
        """Return a new input of the graph."""
        param = ops.parameter(shape, dtype, name=name)
        param.output(0).set_names({name})
        self.params.append(param)
        return param

    def embedded(self) -> ov.Node:
        """Return the embedding rows of the input tokens."""
        return ops.gather(self.embedding, self.inputs["input_ids"], _int64(0))

    def layers(self, rows: ov.Node) -> ov.Node:
        """Return the rows behind every layer."""
        cos, sin = self._rotary_tables()
        for layer in range(self.spec.num_layers):
            prefix = f"layers.{layer}."
            rows = ops.add(rows, self._attention(layer, prefix, rows, cos, sin))
            rows = ops.add(rows, self._feed_forward(prefix, rows))
        return rows

    def finish(self, rows: ov.Node, name: str, state_norm: str = "final_norm") -> ov.Model:
        """Return the graph whose results are `logits` of the rows asked for, and `hidden` of all.

        Args:
            rows: behind the last layer.
            name: of the graph.
            state_norm: the norm of `hidden`; the logits' own is "final_norm".
        """
        normed = self.rms(rows, "final_norm")
        hidden = normed if state_norm == "final_norm" else self.rms(rows, state_norm)
        picked = ops.gather(normed, self.inputs["logit_rows"], _int64(0))
        results = []
        for result_name, node in (
            ("logits", self._product(picked, "output")),
            ("hidden", hidden),
        ):
            result = ops.result(node)
            result.output(0).set_names({result_name})
            results.append(result)
        return ov.Model(results, self.params, name)

    def linear(self, rows: ov.Node, *names: str) -> ov.Node:
        """Return rows times the stacked matrices `names`, plus their biases where there are any."""
        product = self._product(rows, *names)
        if self.tensors.has_tensor(f"{names[0]}_bias"):
            bias = np.concatenate([self.tensors.tensor(f"{name}_bias") for name in names])
            product = ops.add(product, ops.constant(bias.reshape(1, -1)))
        return product

    def _product(self, rows: ov.Node, *names: str) -> ov.Node:
        """Return rows times the stacked matrices `names`: the sum over their pieces."""
        matrices = self.matrices[names]
        if len(matrices) == 1:
            return ops.matmul(rows, matrices[0], False, True)
        widths = [matrix.get_output_shape(0)[1] for matrix in matrices]
        parts = ops.variadic_split(rows, _int64(1), _int64(widths)).outputs()
        products = [
            ops.matmul(part, matrix, False, True)
            for part, matrix in zip(parts, matrices, strict=True)
        ]
        return reduce(ops.add, products)

    def rms(self, rows: ov.Node, name: str) -> ov.Node:
        """Root-mean-square norm over the last axis, spelt so that the runtime fuses it."""
        weight = self.tensors.tensor(name)
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
        if self.tensors.has_tensor("rope_factors"):
            frequencies = frequencies / self.tensors.tensor("rope_factors").astype(np.float64)
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
        normed = self.rms(rows, f"{prefix}attn_norm")
        joined = self.linear(normed, *(prefix + name for name in ("q", "k", "v")))
        num_heads = {"q": spec.num_heads, "k": spec.num_kv_heads, "v": spec.num_kv_heads}
        widths = [count * spec.head_size for count in num_heads.values()]
        parts = ops.variadic_split(joined, _int64(1), _int64(widths)).outputs()
        operands = []
        for (name, count), part in zip(num_heads.items(), parts, strict=True):
            if name != "v":
                heads = ops.reshape(part, _int64([-1, count, 1, spec.head_size]), False)
                if spec.qk_norm:
                    heads = self.rms(heads, f"{prefix}{name}_norm")
                turned = self._rotated(heads, cos, sin)
                flat = _int64([-1, count * spec.head_size])
                part = ops.reshape(turned, flat, False).output(0)  # noqa: PLW2901
            operands.append(part)
        mixed = self._paged_attention(layer, *operands)
        return self.linear(mixed, f"{prefix}o")

    def _paged_attention(
        self, layer: int, query: ov.Output, key: ov.Output, value: ov.Output
    ) -> ov.Output:
        spec, inputs = self.spec, self.inputs
        rows = [query, key, value]
        if self.attention != "f32":
            rows = [ops.convert(part, self.attention).output(0) for part in rows]
        caches = [
            self.add_input(f"{kind}_cache.{layer}", [-1, -1, -1, -1], ov.Type.dynamic)
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
        normed = self.rms(rows, f"{prefix}ffn_norm")
        joined = self.linear(normed, f"{prefix}gate", f"{prefix}up")
        size = self.spec.ffn_size
        gate, up = ops.variadic_split(joined, _int64(1), _int64([size, size])).outputs()
        return self.linear(ops.multiply(ops.swish(gate), up), f"{prefix}down")


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
