"""The prefix cache: requests that begin alike read what they share once.

In: sequences as they begin to read, and as they have read. It tells the backend's cache and the
drafter's what may be shared, and sets where a sequence's own reading begins. Only committed tokens
enter: of a prompt as soon as they are read, of an answer when the request ends or gives up its
cache. What an error ended is never shared further.

At least one token is always left to be read, for its logits or its hidden state. A request that
wants entries of its prompt's tokens reads all of it.

Guarantee: answers are those of requests that read everything themselves, where a row's bits do not
depend on the rows beside it (row shape "stable"); tests/engine/test_prefix_cache.py.
"""

from __future__ import annotations

from leeway.backends.base import Backend
from leeway.drafters.base import Drafter
from leeway.scheduler.sequence import Sequence


class PrefixCache:
    """What is shared between the sequences of one engine; does nothing unless it is on."""

    def __init__(self, backend: Backend, drafter: Drafter, *, is_on: bool) -> None:
        """Take the caches of a target and its drafter."""
        self._backend = backend
        self._drafter = drafter
        self._is_on = is_on

    def take(self, sequence: Sequence) -> None:
        """Begin behind what is cached of the text. Mutates the sequence, whose cache is empty."""
        if not self._is_on or sequence.wants_prompt_rows:
            return
        handle = sequence.handle
        assert handle is not None
        num_cached = self._backend.take_prefix(
            handle, sequence.token_ids[: sequence.num_to_prefill - 1]
        )
        if num_cached > 0 and sequence.is_drafting:
            request_id = sequence.request.request_id
            num_known = self._drafter.start(request_id, sequence.token_ids, num_cached)
            self._backend.truncate(handle, num_known)
            num_cached = num_known
        sequence.num_cached = sequence.num_observed = num_cached
        if sequence.output_len == 0:  # what is read again behind that is no prompt's
            sequence.tally.num_cached_tokens = num_cached

    def share(self, sequence: Sequence) -> None:
        """Let later requests begin with what this one has cached of its text."""
        if not self._is_on or sequence.handle is None:
            return
        self._backend.share_prefix(sequence.handle, sequence.token_ids[: sequence.num_cached])
        if sequence.is_drafting:
            self._drafter.share(sequence.request.request_id)
