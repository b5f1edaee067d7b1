"""A draft under construction: from a drafter's logits to tokens and the rows they were drawn from.

In: logits one row after the other, over the target's vocabulary or over some of its ids. Out: a
`Draft`. Rows are made as the target's are: min_tokens, grammar, penalties, temperature (perhaps
scaled), top-k, top-p and min-p, in the same order; where the drafter knows only some ids, all
others have probability zero. Knows neither models nor caches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from leeway.core.rng import Purpose
from leeway.core.types import Draft, FloatArray, IntArray, Rows, SamplingParams
from leeway.drafters.base import DraftAsk
from leeway.sampling import penalties
from leeway.sampling.min_tokens import ban_end
from leeway.sampling.warp import pack, softmax, warp


@dataclass(slots=True)
class SampledDraft:
    """Tokens drawn so far for one ask.

    `is_complete` where a grammar lets nothing more be drawn: an end token was, or the drafter knows
    none of the tokens that may come.
    """

    ask: DraftAsk
    token_ids: list[int] = field(default_factory=list, init=False)
    is_complete: bool = field(default=False, init=False)
    _rows: list[Rows] = field(default_factory=list, init=False)
    _raw_probs: list[FloatArray] = field(default_factory=list, init=False)

    def extend(
        self, logits: FloatArray, ids: IntArray | None = None, vocab_size: int | None = None
    ) -> None:
        """Draw the next token, unless the draft is complete.

        Args:
            logits: [1, num_columns]; not changed.
            ids: [num_columns], the token of each column, ascending; None where column j is token j.
            vocab_size: of the target; needed with `ids`.
        """
        ask = self.ask
        num_banned = ask.sampling.min_tokens - ask.step - len(self.token_ids)
        if num_banned > 0:
            logits = ban_end(logits, ask.end_token_ids, num_banned, ids)
        if ask.grammar is not None:
            masked = ask.grammar.mask_draft_row(logits, self.token_ids, ids)
            if masked is None:
                self.is_complete = True
                return
            logits = masked
        if ask.keep_raw_probs:
            self._raw_probs.append(_spread(softmax(logits), ids, vocab_size, 0.0))
        if penalties.is_active(ask.sampling):
            history = penalties.after(ask.history, self.token_ids)
            whole = _spread(logits, ids, vocab_size, -np.inf)
            changed = penalties.penalise(whole, ask.sampling, history, ())
            logits = changed if ids is None else changed[:, ids]
        rows = warp(logits, self._sampling())
        column = ask.coins.draw(
            rows.probs[0], step=ask.step, row=len(self.token_ids), purpose=Purpose.DRAFT
        )
        if ids is not None:
            rows = Rows(rows.probs, ids if rows.token_ids is None else ids[rows.token_ids])
        self.token_ids.append(column if rows.token_ids is None else int(rows.token_ids[column]))
        self._rows.append(rows)
        self.is_complete = ask.grammar is not None and ask.grammar.is_end(self.token_ids[-1])

    def _sampling(self) -> SamplingParams:
        """Return how drafts are drawn."""
        sampling, scale = self.ask.sampling, self.ask.temperature_scale
        if scale == 1.0:
            return sampling
        return replace(sampling, temperature=sampling.temperature * scale)

    def finish(self) -> Draft:
        """Return the draft, empty where nothing was drawn."""
        if not self.token_ids:
            return Draft(())
        raw_probs = np.concatenate(self._raw_probs) if self._raw_probs else None
        return Draft(tuple(self.token_ids), _stack(self._rows), raw_probs)


def _spread(
    rows: FloatArray, ids: IntArray | None, vocab_size: int | None, rest: float
) -> FloatArray:
    """Return rows over the whole vocabulary, `rest` where there is no column."""
    if ids is None:
        return rows
    assert vocab_size is not None
    whole = np.full((len(rows), vocab_size), rest, rows.dtype)
    whole[:, ids] = rows
    return whole


def _stack(rows: Sequence[Rows]) -> Rows:
    """Return single rows stacked over their common columns."""
    first = rows[0].token_ids
    if all(row.token_ids is first for row in rows):
        return Rows(np.concatenate([row.probs for row in rows]), first)
    return pack([(row.token_ids, row.probs[0]) for row in rows if row.token_ids is not None])
