"""The OpenVINO backend: one model, one paged cache, any number of sequences on the CPU.

In: a `ModelFiles` and settings. Out: `Backend` of `backends/base`. It knows neither laws, drafts,
sampling nor text.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from leeway.backends.base import ForwardOutput, SequenceInput
from leeway.backends.openvino.compiled import compile_model
from leeway.backends.openvino.decoder_layers import BLOCK_LEN
from leeway.backends.openvino.graph import build_graph
from leeway.backends.openvino.paged_model import PagedModel
from leeway.backends.openvino.paged_sequences import PagedSequences
from leeway.core.errors import ConfigError, did_you_mean
from leeway.models.base import ModelFiles

ROW_SHAPES = ("stable", "fast")


class OpenVINOBackend(PagedSequences):
    """A decoder on OpenVINO; see `backends.base.Backend` for the contract."""

    block_len = BLOCK_LEN
    exact_rollback = True

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
        self.vocab_size, self.hidden_size = spec.vocab_size, spec.hidden_size
        self.context_len = spec.context_len
        self.prefill_chunk_len = prefill_chunk_len
        compiled = compile_model(
            partial(build_graph, files), weights=weights, kv_cache=kv_cache, num_threads=num_threads
        )
        self.embedding = compiled.embedding
        self._model = PagedModel(
            compiled.runtime,
            context_len=spec.context_len,
            max_num_seqs=max_num_seqs,
            kv_memory_bytes=kv_memory_bytes,
            kv_capacity_tokens=kv_capacity_tokens,
            pad_blocks=row_shape == "stable",
        )
        self.capacity_tokens = self._model.pool.capacity_tokens
        self._settings = compiled.settings | {
            "row_shape": row_shape,
            "kv_cache_bytes": self._model.cache_bytes,
            "capacity_tokens": self.capacity_tokens,
            "block_len": BLOCK_LEN,
            "exact_rollback": self.exact_rollback,
            "prefill_chunk_len": prefill_chunk_len,
        }
        self._warm_up()

    def set_row_shape(self, row_shape: str) -> None:
        """Change the row shape from the next forward on; weights and cache stay.

        Raises:
            ConfigError: it is unknown.
        """
        _check_row_shape(row_shape)
        self._model.set_padding(pad_blocks=row_shape == "stable")
        self._settings["row_shape"] = row_shape

    def forward(self, inputs: Sequence[SequenceInput]) -> ForwardOutput:
        """Append the new tokens of each sequence and return the rows asked for.

        Raises:
            CapacityError: the cache has no room; nothing was appended.
            BackendError: the model gave a number that is not finite, or the runtime failed;
                nothing was appended.
        """
        return self._model.run(inputs)


def _check_row_shape(row_shape: str) -> None:
    if row_shape not in ROW_SHAPES:
        raise ConfigError(
            f"unknown row_shape {row_shape!r}{did_you_mean(row_shape, ROW_SHAPES)}; "
            f"allowed: {', '.join(ROW_SHAPES)}",
            param="row_shape",
        )
