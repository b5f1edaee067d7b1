"""Where an answer stands in its grammar, and what may come next.

In: the tokens of an answer as they are committed, and tokens drafted behind them. Out: for each row
of a block the tokens that may come there. Rows behind drafted tokens are those of a copy that went
ahead; the committed state never does, so that a rejected draft leaves nothing to undo. An end token
is allowed exactly where the grammar may stop; text that must come may come only in the tokens that
the tokenizer itself would write it in. Where reasoning may come first, it is free but for end
tokens, and the grammar begins behind the token that closes it, in the middle of a block or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import llguidance
import numpy as np
from numpy.typing import NDArray

from leeway.core.errors import RequestError
from leeway.core.types import Draft, FloatArray, Grammar, IntArray
from leeway.grammar.source import refusal

BoolArray = NDArray[np.bool_]

Part = Literal["start", "thought", "form"]

_NOTHING = "no token of this model's vocabulary can come next"


class GrammarState:
    """The state of one answer."""

    def __init__(
        self,
        matcher: llguidance.LLMatcher,
        eos_token_ids: frozenset[int],
        vocab_size: int,
        grammar: Grammar,
    ) -> None:
        """Take a matcher that has read nothing."""
        self._committed = matcher
        self._ends = eos_token_ids
        self._vocab_size = vocab_size
        self._grammar = grammar
        self._ahead = matcher
        self._ahead_ids: tuple[int, ...] = ()
        self._known: dict[tuple[int, ...], BoolArray | None] = {}
        self._part: Part = "form"
        if grammar.thought_close is not None:
            self._part = "thought" if grammar.thought_open is None else "start"

    def copy(self) -> GrammarState:
        """Return a state at the same place that goes its own way."""
        matcher = self._committed.deep_copy()
        state = GrammarState(matcher, self._ends, self._vocab_size, self._grammar)
        state._part = self._part
        return state

    def advance(self, token_ids: Sequence[int]) -> None:
        """Take committed tokens; mutates the state. What is wrong shows when a row is asked for."""
        self._known, self._ahead_ids = {}, ()
        self._part, form_ids = self._follow(tuple(token_ids))
        for token_id in form_ids:
            if token_id in self._ends:
                break
            self._committed.consume_token(token_id)
        self._ahead = self._committed

    def allowed_after(self, draft_ids: Sequence[int]) -> BoolArray | None:
        """Return the tokens that may come behind committed and drafted ones, [vocab_size].

        None where the last drafted token ends the answer: what comes behind it is never read.

        Raises:
            RequestError: the library gave up on this grammar.
        """
        key = tuple(draft_ids)
        if key not in self._known:
            is_ended = bool(key) and key[-1] in self._ends
            self._known[key] = None if is_ended else self._allowed(*self._follow(key))
        return self._known[key]

    def check_begins(self) -> None:
        """Raise RequestError where no token of the form itself may come first."""
        if not self._read(self._committed).any():
            raise refusal(self._grammar, _NOTHING)

    def check_next(self, draft_ids: Sequence[int]) -> BoolArray | None:
        """Return `allowed_after`. Raises RequestError where nothing may come."""
        allowed = self.allowed_after(draft_ids)
        if allowed is not None and not allowed.any():
            raise refusal(self._grammar, _NOTHING)
        return allowed

    def mask(self, logits: FloatArray, draft_ids: Sequence[int]) -> FloatArray:
        """Return a copy of a block's logits with minus infinity for what may not come.

        Args:
            logits: [num_draft_tokens + 1, vocab_size]; row i stands behind `draft_ids[:i]`.
            draft_ids: the block's drafted tokens, each of them allowed.

        The last row stays as it is where nothing may come behind the whole draft: whoever reads it
        has to `check_next` first.

        Raises:
            RequestError: nothing may come at the first row.
        """
        masked = np.array(logits)
        for index, row in enumerate(masked):
            behind = draft_ids[:index]
            allowed = self._try(behind) if behind else self.check_next(())
            if allowed is not None:
                row[~allowed] = -np.inf
        return masked

    def mask_draft_row(
        self, logits: FloatArray, draft_ids: Sequence[int], ids: IntArray | None
    ) -> FloatArray | None:
        """Return a drafter's row masked likewise; None where it has nothing that may come.

        Args:
            logits: [1, num_columns]; not changed.
            draft_ids: tokens drafted before it.
            ids: [num_columns], the token of each column; None where column j is token j.
        """
        allowed = self._try(draft_ids)
        if allowed is None:
            return None
        masked: FloatArray = np.where(allowed if ids is None else allowed[ids], logits, -np.inf)
        return masked.astype(logits.dtype, copy=False) if np.isfinite(masked).any() else None

    def is_end(self, token_id: int) -> bool:
        """Return whether a token ends the answer."""
        return token_id in self._ends

    def cut(self, draft: Draft) -> Draft:
        """Return the draft before its first token that may not come, and up to an end token.

        Only a point mass can hold one: sampled drafts come from masked rows.
        """
        if draft.rows is not None:
            return draft
        for index, token_id in enumerate(draft.token_ids):
            allowed = self._try(draft.token_ids[:index])
            if allowed is None or not allowed[token_id]:
                return Draft(draft.token_ids[:index])
        return draft

    def _try(self, draft_ids: Sequence[int]) -> BoolArray | None:
        """Return `allowed_after`; None also where nothing may come or the library gave up."""
        try:
            return self.check_next(draft_ids)
        except RequestError:
            return None

    def _follow(self, token_ids: tuple[int, ...]) -> tuple[Part, tuple[int, ...]]:
        """Return which part of the answer comes behind these tokens, and those of its form."""
        part = self._part
        for index, token_id in enumerate(token_ids):
            if part == "form":
                return part, token_ids[index:]
            if part == "start":
                if token_id != self._grammar.thought_open:
                    return "form", token_ids[index:]
                part = "thought"
            elif token_id == self._grammar.thought_close:
                part = "form"
        return part, ()

    def _allowed(self, part: Part, form_ids: tuple[int, ...]) -> BoolArray:
        if part == "thought":
            allowed = np.ones(self._vocab_size, dtype=bool)
            allowed[list(self._ends)] = False
            return allowed
        allowed = self._read(self._matcher_after(form_ids))
        if part == "start":
            assert self._grammar.thought_open is not None
            allowed[self._grammar.thought_open] = True
        return allowed

    def _matcher_after(self, draft_ids: tuple[int, ...]) -> llguidance.LLMatcher:
        """Return a matcher that has read the drafted tokens, going on from the last one asked for.

        Copies are dropped rather than rolled back: the library cannot go back from where a grammar
        has come to its end.
        """
        num_read = len(self._ahead_ids)
        if draft_ids[:num_read] != self._ahead_ids:
            self._ahead, num_read = self._committed, 0
        if num_read < len(draft_ids):
            if self._ahead is self._committed:
                self._ahead = self._committed.deep_copy()
            for token_id in draft_ids[num_read:]:
                self._ahead.consume_token(token_id)
        self._ahead_ids = draft_ids
        return self._ahead

    def _read(self, matcher: llguidance.LLMatcher) -> BoolArray:
        allowed = np.zeros(self._vocab_size, dtype=bool)
        is_final = matcher.is_stopped() and not matcher.is_error()
        if not is_final:
            bits = np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8)
            allowed[:] = np.unpackbits(bits, bitorder="little")[: self._vocab_size]
        if matcher.is_error():
            reason = matcher.get_error()
            is_over = reason.startswith("NoExtension")
            raise refusal(self._grammar, _NOTHING if is_over else reason)
        allowed[list(self._ends)] = matcher.is_accepting()
        return allowed
