"""A draft head on OpenVINO: one compiled head, its own paged cache, any number of sequences.

In: a `HeadFiles`, the target's files and settings. Out: `DraftHead` of `backends/base`. It knows
neither drafts, sampling nor text.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from leeway.backends.base import ForwardOutput, HeadInput, SequenceInput
from leeway.backends.openvino.block_width import HeadWidth
from leeway.backends.openvino.compiled import compile_model
from leeway.backends.openvino.head_graph import build_head_graph
from leeway.backends.openvino.paged_model import PagedModel
from leeway.backends.openvino.paged_sequences import PagedSequences
from leeway.backends.openvino.weights import EncodedMatrix
from leeway.core.types import IntArray
from leeway.models.base import ModelFiles
from leeway.models.head_base import HeadFiles


class OpenVINOHead(PagedSequences):
    """A multi-token-prediction head; see `backends.base.DraftHead` for the contract."""

    draft_token_ids: IntArray | None

    def __init__(
        self,
        head_files: HeadFiles,
        target_files: ModelFiles,
        *,
        embedding: EncodedMatrix | None = None,
        weights: str = "int8",
        kv_cache: str = "16bit",
        kv_capacity_tokens: int | None = None,
        num_threads: int | None = None,
        max_num_seqs: int = 8,
        prefill_chunk_len: int = 512,
    ) -> None:
        """Build and compile the head.

        `embedding` is the target backend's own, which a head without one then shares; otherwise
        it is encoded again. Logits do not depend on the rows that share a forward.

        Raises:
            ConfigError, ModelError: a setting, or a tensor, is wrong or missing.
        """
        spec = head_files.spec
        self.hidden_size, self.context_len = spec.decoder.hidden_size, spec.decoder.context_len
        self.draft_token_ids, self.depth = spec.draft_token_ids, spec.depth
        self.prefill_chunk_len = prefill_chunk_len
        build = partial(build_head_graph, head_files, target_files, embedding=embedding)
        compiled = compile_model(build, weights=weights, kv_cache=kv_cache, num_threads=num_threads)
        self._embedding = compiled.embedding
        self._model = PagedModel(
            compiled.runtime,
            context_len=self.context_len,
            max_num_seqs=max_num_seqs,
            kv_memory_bytes=None,
            kv_capacity_tokens=kv_capacity_tokens,
            pad_blocks=True,
            make_widths=HeadWidth,
        )
        self._settings = {
            **_facts(head_files),
            "shares_embedding": self._embedding is embedding,
            "weights": weights,
            "kv_cache": kv_cache,
            "kv_cache_bytes": self._model.cache_bytes,
            "capacity_tokens": self._model.pool.capacity_tokens,
            "INFERENCE_NUM_THREADS": compiled.settings["INFERENCE_NUM_THREADS"],
        }
        self._warm_up(state_size=self.hidden_size)

    def forward(self, inputs: Sequence[HeadInput]) -> ForwardOutput:
        """Append positions; logits [sum of num_logit_rows, draft vocabulary], hidden [all, size].

        Raises:
            CapacityError: the cache has no room; nothing was appended.
            BackendError: the head gave a number that is not finite; nothing was appended.
        """
        items = [SequenceInput(one.handle, one.token_ids, one.num_logit_rows) for one in inputs]
        return self._model.run(items, [one.hidden for one in inputs])


def _facts(head_files: HeadFiles) -> dict[str, str | int | float | bool]:
    """Return what identifies a head, for /health and doctor."""
    spec = head_files.spec
    ids = spec.draft_token_ids
    return {
        "name": head_files.name,
        "sha256": head_files.sha256(),
        "depth": spec.depth,
        "num_layers": spec.decoder.num_layers,
        "draft_vocab_size": spec.decoder.vocab_size if ids is None else len(ids),
    }
