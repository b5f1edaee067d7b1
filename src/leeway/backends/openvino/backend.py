"""The OpenVINO backend: one model, one paged cache, any number of sequences on the CPU.

In: a `ModelFiles` and settings. Out: `Backend` of `backends/base`. It joins the graph, the block
pool and the step inputs; it knows neither laws, drafts, sampling nor text.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import numpy as np
import openvino as ov
from numpy.typing import NDArray

from leeway.backends.base import ForwardOutput, SequenceInput
from leeway.backends.openvino.graph import BLOCK_LEN, build_graph
from leeway.backends.openvino.memory import num_cache_blocks
from leeway.backends.openvino.precision import CpuFeatures, choose_precisions
from leeway.backends.openvino.step_inputs import SequenceRows, StepInputs
from leeway.backends.openvino.weights import weight_form
from leeway.core.errors import BackendError, ConfigError, did_you_mean
from leeway.kvcache import BlockPool
from leeway.models.base import ModelFiles

ROW_SHAPES = ("stable", "fast")


class OpenVINOBackend:
    """A decoder on OpenVINO; see `backends.base.Backend` for the contract."""

    def __init__(
        self,
        files: ModelFiles,
        *,
        weights: str = "int8",
        kv_cache: str = "16bit",
        kv_memory_bytes: int | None = None,
        num_threads: int | None = None,
        row_shape: str = "stable",
        max_num_seqs: int = 8,
        prefill_chunk_len: int = 512,
    ) -> None:
        """Build and compile the model.

        `row_shape` "stable" gives every token the same logits to the bit however many rows share
        its forward; "fast" never pads. `max_num_seqs` only bounds the default cache size.

        Raises:
            ConfigError: a setting is unknown or too small.
            ModelError: a tensor is missing or corrupt.
        """
        if row_shape not in ROW_SHAPES:
            raise ConfigError(
                f"unknown row_shape {row_shape!r}{did_you_mean(row_shape, ROW_SHAPES)}; "
                f"allowed: {', '.join(ROW_SHAPES)}",
                param="row_shape",
            )
        spec = files.spec
        core = ov.Core()
        cpu = CpuFeatures.detect(core)
        form = weight_form(weights, has_bf16=cpu.has_bf16)
        precisions = choose_precisions(weights, kv_cache, cpu)
        self.vocab_size = spec.vocab_size
        self.hidden_size = spec.hidden_size
        self.context_len = spec.context_len
        self.block_len = BLOCK_LEN
        self.prefill_chunk_len = prefill_chunk_len
        self.exact_rollback = True
        threads = num_threads or os.cpu_count() or 1
        properties = precisions.properties() | {
            "PERFORMANCE_HINT": "LATENCY",
            "NUM_STREAMS": 1,
            "INFERENCE_NUM_THREADS": threads,
            "ENABLE_CPU_PINNING": False,
        }
        graph = build_graph(files, form, attention=precisions.attention, num_threads=threads)
        compiled = core.compile_model(graph, "CPU", properties)
        self._request = compiled.create_infer_request()
        cache_shapes = _cache_shapes(compiled)
        block_bytes = sum(_num_bytes(dtype, shape) for _, dtype, shape in cache_shapes)
        num_blocks = num_cache_blocks(
            block_bytes=block_bytes,
            blocks_per_sequence=-(-spec.context_len // BLOCK_LEN),
            max_num_seqs=max_num_seqs,
            kv_memory_bytes=kv_memory_bytes,
        )
        self._pool = BlockPool(num_blocks, BLOCK_LEN, spec.context_len)
        self.capacity_tokens = self._pool.capacity_tokens
        self._caches = []
        for name, dtype, shape in cache_shapes:
            # Fresh zero pages cost nothing until written; the tensor borrows the array.
            array = np.zeros(_num_bytes(dtype, [num_blocks + 1, *shape]), np.uint8)
            self._caches.append(array)
            tensor = ov.Tensor(array, ov.Shape([num_blocks + 1, *shape]), dtype)
            self._request.set_tensor(name, tensor)
        self._inputs = StepInputs(
            self._request, pad_single_rows=row_shape == "stable", pad_block=num_blocks
        )
        self._settings: dict[str, str | int | float | bool] = {
            "backend": "openvino",
            "runtime_version": ov.__version__,
            "weights": weights,
            "weight_kind": form.kind,
            "output_kind": form.output_kind,
            "kv_cache": kv_cache,
            "attention": precisions.attention,
            "row_shape": row_shape,
            "kv_cache_bytes": block_bytes * num_blocks,
            "capacity_tokens": self.capacity_tokens,
            "block_len": BLOCK_LEN,
            "exact_rollback": self.exact_rollback,
            "prefill_chunk_len": prefill_chunk_len,
        } | {name: _setting(compiled, name, value) for name, value in properties.items()}

    def open(self) -> int:
        """Return the handle of a new, empty sequence."""
        return self._pool.open()

    def cached_len(self, handle: int) -> int:
        """Return how many tokens of the sequence are in the cache."""
        return self._pool.table(handle).cached_len

    def truncate(self, handle: int, kept_len: int) -> None:
        """Forget all cached tokens of the sequence behind the first `kept_len`."""
        self._pool.truncate(handle, kept_len)

    def close(self, handle: int) -> None:
        """Give back everything the sequence holds."""
        self._pool.close(handle)

    def describe(self) -> dict[str, str | int | float | bool]:
        """Return the settings in force, as the runtime reports them."""
        return dict(self._settings)

    def check_integrity(self) -> None:
        """Assert that no cache block is lost or owned twice."""
        self._pool.check_integrity()

    def forward(self, inputs: Sequence[SequenceInput]) -> ForwardOutput:
        """Append the new tokens of each sequence and return the rows asked for.

        Raises:
            CapacityError: the cache has no room; nothing was appended.
            BackendError: the model gave a number that is not finite; nothing was appended.
        """
        pool = self._pool
        tables = [pool.table(item.handle) for item in inputs]
        past_lens = [table.cached_len for table in tables]
        pool.append([(item.handle, len(item.token_ids)) for item in inputs])
        sequences = [
            SequenceRows(
                item.token_ids, past_len, table.ids[: table.num_blocks], item.num_logit_rows
            )
            for item, table, past_len in zip(inputs, tables, past_lens, strict=True)
        ]
        real_rows = self._inputs.fill(sequences, BLOCK_LEN)
        num_logit_rows = sum(item.num_logit_rows for item in inputs)
        try:
            self._request.infer(share_outputs=True)
            logits: NDArray[np.float32] = self._request.get_output_tensor(0).data
            hidden: NDArray[np.float32] = self._request.get_output_tensor(1).data
            logits = logits[:num_logit_rows]
            if real_rows is not None:
                hidden = hidden[real_rows]
            if not (np.isfinite(hidden.sum()) and np.isfinite(logits.sum())):
                raise BackendError(
                    "the model gave a number that is not finite; check the model file's checksum "
                    "or try another precision (weights f32)"
                )
        except Exception:
            for item, past_len in zip(inputs, past_lens, strict=True):
                pool.truncate(item.handle, past_len)
            raise
        return ForwardOutput(logits=logits, hidden=hidden)


def _cache_shapes(compiled: ov.CompiledModel) -> list[tuple[str, ov.Type, list[int]]]:
    """Name, element type and shape of one block, [kv_heads, slots, head], of every cache input."""
    shapes = []
    for port in compiled.inputs:
        name = port.get_any_name()
        if "_cache." in name:
            shape = port.get_partial_shape()
            shapes.append(
                (name, port.get_element_type(), [d.get_length() for d in list(shape)[1:]])
            )
    return shapes


def _num_bytes(dtype: ov.Type, shape: Sequence[int]) -> int:
    return math.prod(shape) * int(dtype.size)


def _setting(
    compiled: ov.CompiledModel, name: str, requested: str | int | bool
) -> str | int | bool:
    try:
        value = compiled.get_property(name)
    except RuntimeError:
        return requested
    return value if isinstance(value, str | int | bool) else str(value)
