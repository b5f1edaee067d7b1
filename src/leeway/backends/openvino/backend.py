"""The OpenVINO backend: one model, one paged cache, any number of sequences on the CPU.

In: a `ModelFiles` and settings. Out: `Backend` of `backends/base`. It joins the graph, the block
pool and the step inputs; it knows neither laws, drafts, sampling nor text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from leeway.backends.base import ForwardOutput, SequenceInput
from leeway.backends.openvino.cache_memory import CacheMemory
from leeway.backends.openvino.compiled import compile_model
from leeway.backends.openvino.graph import BLOCK_LEN
from leeway.backends.openvino.memory import num_cache_blocks
from leeway.backends.openvino.step_inputs import StepInputs
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
        kv_capacity_tokens: int | None = None,
        num_threads: int | None = None,
        row_shape: str = "stable",
        max_num_seqs: int = 8,
        prefill_chunk_len: int = 512,
    ) -> None:
        """Build and compile the model.

        `row_shape` "stable" gives every token the same logits to the bit however many rows share
        its forward; "fast" never pads. The cache holds `kv_capacity_tokens`, else what fits into
        `kv_memory_bytes`, else a share of the free memory that `max_num_seqs` bounds.

        Raises:
            ConfigError: a setting is unknown or too small.
            ModelError: a tensor is missing or corrupt.
        """
        _check_row_shape(row_shape)
        spec = files.spec
        self.vocab_size = spec.vocab_size
        self.hidden_size = spec.hidden_size
        self.context_len = spec.context_len
        self.block_len = BLOCK_LEN
        self.prefill_chunk_len = prefill_chunk_len
        self.exact_rollback = True
        compiled = compile_model(files, weights=weights, kv_cache=kv_cache, num_threads=num_threads)
        self._request = compiled.runtime.create_infer_request()
        self._cache = CacheMemory(compiled.runtime)
        if kv_capacity_tokens is not None:
            kv_memory_bytes = -(-kv_capacity_tokens // BLOCK_LEN) * self._cache.block_bytes
        num_blocks = num_cache_blocks(
            block_bytes=self._cache.block_bytes,
            blocks_per_sequence=-(-spec.context_len // BLOCK_LEN),
            max_num_seqs=max_num_seqs,
            kv_memory_bytes=kv_memory_bytes,
        )
        self._pool = BlockPool(num_blocks, BLOCK_LEN, spec.context_len)
        self.capacity_tokens = self._pool.capacity_tokens
        # One block more than the pool hands out: padding rows may write there.
        self._cache.attach(self._request, num_blocks + 1)
        self._inputs = StepInputs(
            self._request, pad_blocks=row_shape == "stable", pad_block=num_blocks
        )
        self._settings = compiled.settings | {
            "row_shape": row_shape,
            "kv_cache_bytes": self._cache.block_bytes * num_blocks,
            "capacity_tokens": self.capacity_tokens,
            "block_len": BLOCK_LEN,
            "exact_rollback": self.exact_rollback,
            "prefill_chunk_len": prefill_chunk_len,
        }

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

    def set_row_shape(self, row_shape: str) -> None:
        """Change the row shape from the next forward on; weights and cache stay.

        Raises:
            ConfigError: it is unknown.
        """
        _check_row_shape(row_shape)
        self._inputs.set_padding(pad_blocks=row_shape == "stable")
        self._settings["row_shape"] = row_shape

    def check_integrity(self) -> None:
        """Assert that no cache block is lost or owned twice."""
        self._pool.check_integrity()

    def forward(self, inputs: Sequence[SequenceInput]) -> ForwardOutput:
        """Append the new tokens of each sequence and return the rows asked for.

        Raises:
            CapacityError: the cache has no room; nothing was appended.
            BackendError: the model gave a number that is not finite, or the runtime failed;
                nothing was appended.
        """
        pool = self._pool
        tables = [pool.table(item.handle) for item in inputs]
        past_lens = [table.cached_len for table in tables]
        pool.append([(item.handle, len(item.token_ids)) for item in inputs])
        real_rows = self._inputs.fill(inputs, tables, past_lens)
        num_logit_rows = sum([item.num_logit_rows for item in inputs])
        try:
            self._request.infer(share_outputs=True)
            hidden: NDArray[np.float32] = self._request.get_output_tensor(1).data[real_rows]
            # The output matrix was finite when it was encoded, so finite states give finite logits.
            with np.errstate(over="ignore", invalid="ignore"):
                total = float(hidden.sum())
            if not math.isfinite(total):
                raise BackendError(
                    "the model gave a number that is not finite; check the model file's checksum "
                    "or try another precision (weights f32)"
                )
        except Exception as error:
            for item, past_len in zip(inputs, past_lens, strict=True):
                pool.truncate(item.handle, past_len)
            if isinstance(error, RuntimeError):  # what the runtime raises, whatever went wrong
                raise BackendError(f"a forward failed in the runtime: {error}") from error
            raise
        logits = self._request.get_output_tensor(0).data[:num_logit_rows]
        return ForwardOutput(logits=logits, hidden=hidden)


def _check_row_shape(row_shape: str) -> None:
    if row_shape not in ROW_SHAPES:
        raise ConfigError(
            f"unknown row_shape {row_shape!r}{did_you_mean(row_shape, ROW_SHAPES)}; "
            f"allowed: {', '.join(ROW_SHAPES)}",
            param="row_shape",
        )
