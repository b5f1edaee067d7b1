"""What a model and a draft head on OpenVINO share: their sequences, by handle, and their settings.

The `SequenceCache` part of `backends.base` over one `PagedModel`.
"""

from __future__ import annotations

from collections.abc import Sequence

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

    def _warm_up_rows(self) -> tuple[int, ...]:
        """Return the rows of the forwards at load: as many as there are, a verify step's, one.

        The longest makes the runtime take all its buffers, before they move to huge pages.
        """
        most = min(self.prefill_chunk_len, self.context_len, self._model.pool.capacity_tokens)
        return tuple(min(rows, most) for rows in (most, 4, 1))
