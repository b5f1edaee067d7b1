"""A compiled graph with its paged cache: sequences grow by what is run and shrink by truncation.

In: a compiled graph and how much cache it gets; then new tokens of sequences, for a draft head with
the states before them. Out: logits and hidden states. It joins cache memory, block pool and step
inputs, for a whole model and for a draft head alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import openvino as ov
from numpy.typing import NDArray

from leeway.backends.base import ForwardOutput, SequenceInput
from leeway.backends.openvino.block_width import BlockWidth, Widths
from leeway.backends.openvino.cache_memory import CacheMemory
from leeway.backends.openvino.decoder_layers import BLOCK_LEN
from leeway.backends.openvino.memory import num_cache_blocks
from leeway.backends.openvino.step_inputs import StateInput, StepInputs
from leeway.core.errors import BackendError
from leeway.core.types import FloatArray
from leeway.kvcache import BlockPool


class PagedModel:
    """Runs one compiled graph; see `backends.base.Backend` for what its methods promise."""

    def __init__(
        self,
        runtime: ov.CompiledModel,
        *,
        context_len: int,
        max_num_seqs: int,
        kv_memory_bytes: int | None,
        kv_capacity_tokens: int | None,
        pad_blocks: bool,
        make_widths: Callable[[], Widths] = BlockWidth,
    ) -> None:
        """Allocate the cache.

        It holds `kv_capacity_tokens`, else what fits into `kv_memory_bytes`, else a share of the
        free memory that `max_num_seqs` bounds.

        Raises:
            ConfigError: not one block fits, or more is asked for than is free.
        """
        self._request = runtime.create_infer_request()
        self._cache = CacheMemory(runtime)
        if kv_capacity_tokens is not None:
            kv_memory_bytes = -(-kv_capacity_tokens // BLOCK_LEN) * self._cache.block_bytes
        num_blocks = num_cache_blocks(
            block_bytes=self._cache.block_bytes,
            blocks_per_sequence=-(-context_len // BLOCK_LEN),
            max_num_seqs=max_num_seqs,
            kv_memory_bytes=kv_memory_bytes,
        )
        self.pool = BlockPool(num_blocks, BLOCK_LEN, context_len)
        self.cache_bytes = self._cache.block_bytes * num_blocks
        # One block more than the pool hands out: padding rows may write there.
        self._cache.attach(self._request, num_blocks + 1)
        self._inputs = StepInputs(
            self._request,
            pad_blocks=pad_blocks,
            pad_block=num_blocks,
            make_widths=make_widths,
        )
        self._states = StateInput.of(self._request, runtime)

    def set_padding(self, *, pad_blocks: bool) -> None:
        """Pad short blocks from now on, or stop doing so."""
        self._inputs.set_padding(pad_blocks=pad_blocks)

    def run(
        self, inputs: Sequence[SequenceInput], states: Sequence[FloatArray] = ()
    ) -> ForwardOutput:
        """Append the new tokens of each sequence and return the rows asked for.

        Args:
            inputs: each sequence once.
            states: for a draft head one array [new tokens, hidden_size] an input.

        Raises:
            CapacityError: the cache has no room; nothing was appended.
            BackendError: the model gave a number that is not finite, or the runtime failed;
                nothing was appended.
        """
        pool = self.pool
        tables = [pool.table(item.handle) for item in inputs]
        past_lens = [table.cached_len for table in tables]
        pool.append([(item.handle, len(item.token_ids)) for item in inputs])
        real_rows = self._inputs.fill(inputs, tables, past_lens)
        if self._states is not None:
            self._states.write(states, real_rows, self._inputs.num_rows)
        num_logit_rows = sum([item.num_logit_rows for item in inputs])
        try:
            self._request.infer(share_outputs=True)
            hidden: NDArray[np.float32] = self._request.get_output_tensor(1).data[real_rows]
            # The output matrix was finite when it was encoded, so finite states give finite logits.
            if not np.isfinite(hidden).all():
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
