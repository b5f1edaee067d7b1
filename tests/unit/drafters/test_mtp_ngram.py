"""Which of two drafts is chosen: known answers, and what a choice may not depend on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from leeway.backends.base import SequenceInput
from leeway.backends.tabular import TabularBackend, random_table
from leeway.backends.tabular_head import TabularHead
from leeway.core.rng import KeyedCoins
from leeway.core.types import Draft, SamplingParams
from leeway.drafters.base import DraftAsk, Observation
from leeway.drafters.mtp import MTPDrafter
from leeway.drafters.mtp_ngram import HEAD, MTPNGramDrafter, _Past
from leeway.sampling.penalties import History

VOCAB = 10
LONG = {"context_len": 400, "capacity_tokens": 800}
TARGET = TabularBackend(random_table(VOCAB, 1, seed=1), 1, **LONG)
TABLES = [random_table(VOCAB, 1, seed=2 + depth) for depth in range(3)]
REPEATING = (0, 1, 2, 3, 5, 0, 1, 2, 3)  # four tokens came before, and 5 0 1 followed
BIGRAM = (0, 1, 5, 6, 7, 0, 1)  # two tokens came before, and 5 6 7 followed


def make_drafter(**costs: float) -> MTPNGramDrafter:
    head = TabularHead(TARGET, TABLES, 1, **LONG)
    return MTPNGramDrafter(head, VOCAB, **{"ngram_cost": 0.03, "head_cost": 0.11, **costs})


@dataclass
class Text:
    """One request as the engine drives it: shown what was cached, asked for drafts."""

    tokens: list[int]
    drafter: MTPDrafter = field(default_factory=make_drafter)
    name: str = "a"

    def __post_init__(self) -> None:
        self.num_seen = 0
        self.commit()

    def commit(self, *token_ids: int) -> None:
        self.tokens += token_ids
        handle = TARGET.open()
        hidden = TARGET.forward([SequenceInput(handle, self.tokens[:-1], 0)]).hidden
        TARGET.close(handle)
        new = hidden[self.num_seen :].copy()
        self.drafter.observe([Observation(self.name, self.tokens, self.num_seen, new)])
        self.num_seen = len(self.tokens) - 1

    def ask(self, num: int = 3, needs_rows: bool = False) -> DraftAsk:
        history = History(frozenset(), {})
        ask = DraftAsk(self.name, self.tokens, num, SamplingParams(), history, KeyedCoins(3), 0)
        return replace(ask, step=len(self.tokens), needs_rows=needs_rows)

    def propose(self, num: int = 3, needs_rows: bool = False) -> Draft:
        return self.drafter.propose([self.ask(num, needs_rows)])[0]


@pytest.mark.parametrize(
    ("guess", "since", "num_right", "num_judged"),
    [
        ((1, 2, 3), (1, 2, 3, 4), 3, 3),
        ((1, 2, 3), (1, 2, 9), 2, 3),
        ((1, 2, 3), (9,), 0, 1),
        ((1, 2, 3), (1, 2), 2, 2),  # the third was never put to the test
        ((1, 2, 3), (4, 2, 3), 0, 1),
        ((1,), (1, 5), 1, 1),
    ],
)
def test_guesses_are_judged_as_far_as_the_text_goes(guess, since, num_right, num_judged):
    past = _Past(2, {3: guess})
    past.learn([7, 7, *since])
    past.learn([7, 7, *since])  # asked again, as when a forward failed: counted once
    assert (past.records[3].right, past.records[3].judged) == (num_right, num_judged)
    assert past.rate(3) == (num_right + 2 * 0.5) / (num_judged + 2)


def test_counts_fade_towards_the_prior_step_by_step():
    past = _Past(0, {HEAD: (1, 2)})
    past.learn([9])
    assert past.rate(HEAD) == (0 + 2 * 0.6) / (1 + 2)
    past.guesses = {HEAD: (1, 2)}
    past.learn([9, 1, 2])
    assert past.rate(HEAD) == (2 + 2 * 0.6) / (0.95 + 2 + 2)
    for length in range(4, 304):
        past.learn([9] * length)
    assert past.rate(HEAD) == pytest.approx(0.6, abs=1e-6)
    assert [past.rate(size) for size in (2, 3, 4)] == [1 / 3, 1 / 2, 3 / 5]


def test_a_long_match_is_drafted_at_once_and_no_longer_once_it_failed():
    """Before: 2.176 / 1.09 against the head's 2.176 / 1.33. After: 1.624 / 1.09."""
    text = Text(list(REPEATING))
    draft = text.propose()
    assert draft == Draft((5, 0, 1)) and draft.rows is None
    assert text.propose() == draft  # asked again
    text.commit(7, 8, *REPEATING)
    assert text.propose().rows is not None


def test_a_long_match_is_as_long_as_asked():
    text = Text([*range(10), 0, 1, 2, 3])
    assert text.propose(6) == Draft((4, 5, 6, 7, 8, 9))


def test_a_short_match_is_drafted_once_it_would_have_paid():
    """Before: 1.481 / 1.09 against the head's 2.176 / 1.33. After: 2.666 / 1.09."""
    text = Text(list(BIGRAM))
    draft = text.propose()
    assert draft.rows is not None and len(draft.token_ids) == 3
    text.commit(5, 6, 7, 9, 0, 1)  # as the n-gram had guessed
    assert text.propose() == Draft((5, 6, 7))
    assert text.drafter._pasts["a"].rate(2) == (3 + 2 / 3) / (3 + 2)


def test_a_match_that_ends_with_the_text_goes_round():
    assert Text([0, 0, 0, 0, 0]).propose() == Draft((0, 0, 0))


def test_a_law_that_reads_rows_gets_the_heads_drafts():
    text = Text(list(REPEATING))
    expected = Text(list(REPEATING), MTPDrafter(text.drafter.head, VOCAB), "b").propose()
    draft = text.propose(needs_rows=True)
    assert draft.token_ids == expected.token_ids
    np.testing.assert_array_equal(draft.rows.probs, expected.rows.probs)
    assert text.propose() == Draft((5, 0, 1))


def test_a_head_that_is_often_wrong_drafts_less():
    """Three blocks wrong at once: rate 1.2 / 4.8525, where a second token no longer pays."""
    text = Text([0, 1])
    lengths = []
    for _ in range(4):
        draft = text.propose()
        lengths.append(len(draft.token_ids))
        wrong = (token for token in range(VOCAB) if token != draft.token_ids[0])
        text.commit(next(token for token in wrong if token not in text.tokens))
    assert lengths == [3, 2, 1, 1]
    assert text.drafter._pasts["a"].rate(HEAD) == pytest.approx(1.2 / (2 + 1 + 0.95 + 0.95**2))


def test_the_head_follows_whatever_was_drafted_by_others():
    """Its drafts behind a stretch of n-grams are those of a head that saw the text at once."""
    text = Text([*range(10), *range(10)], make_drafter(head_cost=9.0))
    for _ in range(12):
        draft = text.propose()
        assert draft.rows is None and len(draft.token_ids) == 3
        text.commit(*draft.token_ids, (draft.token_ids[-1] + 1) % VOCAB)
    text.commit(5, 5, 3)
    draft = text.propose()
    other = Text(list(text.tokens), MTPDrafter(text.drafter.head, VOCAB), "b")
    expected = other.propose(len(draft.token_ids))
    assert draft.rows is not None and draft.token_ids == expected.token_ids
    np.testing.assert_array_equal(draft.rows.probs, expected.rows.probs)


def test_requests_do_not_see_each_other_and_can_be_forgotten():
    drafter = make_drafter()
    texts = [Text(list(REPEATING), drafter, "a"), Text(list(BIGRAM), drafter, "b")]
    drafts = drafter.propose([text.ask() for text in texts])
    alone = Text(list(BIGRAM), name="b").propose()
    assert drafts[0] == Draft((5, 0, 1)) and drafts[1].token_ids == alone.token_ids
    for name in ("a", "b", "never seen"):
        drafter.forget(name)
    assert drafter.head.num_open() == 0 and not drafter._pasts and not drafter._ngrams._indexes
