"""What a model and a draft head on OpenVINO share: their sequences, by handle, and their settings.

The `SequenceCache` part of `backends.base` over one `PagedModel`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from leeway.backends.base import SequenceInput
from leeway.backends.openvino.huge_pages import use_huge_pages
from leeway.backends.openvino.paged_model import PagedModel


class PagedSequences:
    """Sequences of a paged model; a subclass builds the model and says what is in force."""

    _model: PagedModel
    _settings: dict[str, str | int | float | bool]

    context_len: int
    prefill_chunk_len: int

    def open(self) -> int:
        """Return the handle of a new, empty sequence."""
        return self._model.pool.open()

    def cached_len(self, handle: int) -> int:
        """Return how many positions of the sequence are in the cache."""
        return self._model.pool.table(handle).cached_len

    def take_prefix(self, handle: int, contents: Sequence[int]) -> int:
        """Take over shared blocks; return how many positions are then cached."""
        return self._model.pool.take_prefix(handle, contents)

    def share_prefix(self, handle: int, contents: Sequence[int]) -> None:
        """Let later sequences take over the full blocks of these first positions."""
        self._model.pool.share_prefix(handle, contents)

    def truncate(self, handle: int, kept_len: int) -> None:
        """Forget all cached positions of the sequence behind the first `kept_len`."""
        self._model.pool.truncate(handle, kept_len)

    def close(self, handle: int) -> None:
        """Give back everything the sequence holds."""
        self._model.pool.close(handle)

    def describe(self) -> dict[str, str | int | float | bool]:
        """Return the settings in force, as the runtime reports them."""
        return dict(self._settings)

    def check_integrity(self) -> None:
        """Assert that no cache block is lost or owned twice."""
        self._model.pool.check_integrity()

    def _warm_up(self, state_size: int = 0) -> None:
        """Let the runtime lay out weights and take all its buffers, then move them to huge pages.

        Runs as many rows as there ever are, a verify step's, and one. A draft head reads states of
        `state_size` beside its tokens.
        """
        most = min(self.prefill_chunk_len, self.context_len, self._model.pool.capacity_tokens)
        handle = self.open()
        for num_rows in (most, min(most, 4), 1):
            states = [np.zeros((num_rows, state_size), np.float32)] if state_size else []
            self._model.run([SequenceInput(handle, [0] * num_rows, 1)], states)
            self.truncate(handle, 0)
        self.close(handle)
        use_huge_pages()
