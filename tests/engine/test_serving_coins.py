"""The coins of the served loop: none is thrown twice, none knows of another, none leans.

The law of a correction is enumerated given the very token that was rejected. Whole answers of the
real loop, with the coins that serve, are compared with the rows that they should follow.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from tests.support.enumerate_coins import enumerate_outcomes
from tests.support.serving_cases import EXACT, LAWS, SERVED, case_label, serve
from tests.support.tabular_engine import ask, run_all

from leeway.acceptance.base import RowPair
from leeway.acceptance.registry import build_law
from leeway.backends.tabular import random_table
from leeway.core.rng import KeyedCoins, Purpose, uniform
from leeway.core.types import Acceptance

TABLE, DRAFT_TABLE = random_table(4, 1, seed=71), random_table(4, 1, seed=72)
FALSE_ALARM_RATE = 1e-4


class Recorded:
    """Coins that serve; every key and its number is noted, and none may come again."""

    def __init__(self, seed):
        self.seed, self.coins, self.thrown = seed, KeyedCoins(seed), {}

    def accepts(self, probability, *, step, row, purpose):
        self.note(step, row, purpose)
        return self.coins.accepts(probability, step=step, row=row, purpose=purpose)

    def draw(self, probs, *, step, row, purpose):
        self.note(step, row, purpose)
        return self.coins.draw(probs, step=step, row=row, purpose=purpose)

    def note(self, *key):
        assert key not in self.thrown, f"thrown twice: {key}"
        self.thrown[key] = uniform(self.seed, *key)


def record(law, drafter, num_answers, max_tokens):
    """Return the recorded coins of many answers."""
    found = []

    def make(seed):
        found.append(Recorded(seed))
        return found[-1]

    engine = serve(
        law, drafter, TABLE, DRAFT_TABLE, make_coins=make, context_len=200, capacity_tokens=6000
    )
    prompt = (0, 1, 2, 3, 0, 1, 2, 3, 0)
    run_all(
        engine,
        *(ask(prompt, f"r{seed}", max_tokens=max_tokens, seed=seed) for seed in range(num_answers)),
    )
    return found


@pytest.mark.parametrize(("law", "drafter"), SERVED, ids=case_label)
def test_t04_no_coin_of_an_answer_is_thrown_twice_or_equals_another(law, drafter):
    for coins in record(law, drafter, 8, 24):
        numbers = list(coins.thrown.values())
        assert len(set(numbers)) == len(numbers) > 5
        assert {purpose for _, _, purpose in coins.thrown} <= set(Purpose) - {Purpose.MEASURE}


@pytest.mark.parametrize("drafter", ["draft_model", "mtp", "mtp_ngram"])
@pytest.mark.parametrize("law", ["rejection", "block"])
def test_t04_coins_of_one_place_and_of_neighbours_are_uncorrelated(law, drafter):
    """Also given that they were thrown: whether one is depends on others, its number does not."""
    pairs = {}
    for coins in record(Acceptance(law), drafter, 60, 60):
        steps = sorted({step for step, _, _ in coins.thrown})
        behind = dict(itertools.pairwise(steps))
        for (step, row, purpose), number in coins.thrown.items():
            for other in Purpose:
                for name, key in {
                    "same place": (step, row, other),
                    "next row": (step, row + 1, other),
                    "next block": (behind.get(step), 0, other),
                }.items():
                    if other != purpose or name != "same place":
                        second = coins.thrown.get(key)
                        if second is not None:
                            pairs.setdefault((name, purpose, other), []).append((number, second))
    tested = {key: found for key, found in pairs.items() if len(found) > 300}
    kinds = {("same place", Purpose.DRAFT, Purpose.ACCEPT)}
    kinds |= {("same place", Purpose.DRAFT, Purpose.RECOVER)}
    kinds |= {("same place", Purpose.ACCEPT, Purpose.RECOVER)}
    kinds |= {("next block", Purpose.RECOVER, Purpose.DRAFT)}
    assert kinds <= set(tested)
    for key, found in tested.items():
        first, second = np.array(found).T
        assert stats.pearsonr(first, second).pvalue > FALSE_ALARM_RATE / len(tested), key


def corrections(law):
    """Enumerate one block of one draft: (token before, draft) to (chance kept, row drawn else)."""
    table, draft_table = random_table(3, 1, seed=65), random_table(3, 1, seed=66)

    def run(coins):
        engine = serve(
            law,
            "draft_model",
            table,
            draft_table,
            num_speculative_tokens=1,
            make_coins=lambda _: coins,
        )
        seen, judge = [], engine.parts.judge

        def watched(sequence, draft, logits):
            judgement = judge(sequence, draft, logits)
            if draft.token_ids:
                is_kept = judgement.num_accepted == 1
                drawn = -1 if is_kept else judgement.token_ids[-1]
                seen.append((sequence.token_ids[-1], draft.token_ids[0], drawn))
            return judgement

        engine.parts = replace(engine.parts, judge=watched)
        run_all(engine, ask((0,), max_tokens=3, seed=0))
        (only,) = seen
        return only

    found = {}
    for (before, drafted, drawn), weight in enumerate_outcomes(run).items():
        row = found.setdefault((before, drafted), np.zeros(4))
        row[drawn] += weight
    shares = {place: row / row.sum() for place, row in found.items()}
    return shares, table, draft_table


@pytest.mark.parametrize("law", LAWS, ids=case_label)
def test_t04_the_correction_follows_its_row_given_the_token_that_was_rejected(law):
    found, table, draft_table = corrections(law)
    assert len(found) == 9
    closed, num_corrected = build_law(law), 0
    for (before, drafted), row in found.items():
        rows = RowPair(table[(before,)][None], draft_table[(before,)][None])
        kept, drawn = row[-1], row[:-1]
        assert kept == pytest.approx(closed.accept_probs(rows)[0][drafted], abs=1e-12)
        if kept < 1 - 1e-12:
            expected = closed.recovered_probs(rows, np.array([drafted]))[0]
            np.testing.assert_allclose(drawn / drawn.sum(), expected, atol=1e-12)
            num_corrected += 1
    assert num_corrected > 2


@pytest.mark.parametrize("law", EXACT, ids=case_label)
def test_t04_corrections_of_exact_laws_are_those_of_the_papers(law):
    found, table, draft_table = corrections(law)
    for (before, drafted), row in found.items():
        p, q = table[(before,)], draft_table[(before,)]
        if law.law == "sample_match":
            kept, rest = p[drafted], np.where(np.arange(3) == drafted, 0, p)
        else:
            kept, rest = min(1, p[drafted] / q[drafted]), np.clip(p - q, 0, None)
        assert row[-1] == pytest.approx(kept, abs=1e-12)
        if kept < 1:
            np.testing.assert_allclose(row[:-1] / (1 - row[-1]), rest / rest.sum(), atol=1e-9)


NUM_ANSWERS, ANSWER_LEN = 20, 1000
LOSSY = [
    Acceptance("typical", {"delta": 0.6, "off_set": "coin"}),
    Acceptance("tokenv3", {"alpha": 0.5}),
]
CASES = [
    (Acceptance("rejection"), "draft_model"),
    (Acceptance("rejection"), "ngram"),
    (Acceptance("rejection"), "mtp_ngram"),
    (Acceptance("block"), "mtp"),
    (Acceptance("sample_match"), "draft_model"),
    *((law, "draft_model") for law in LOSSY),
]


@pytest.mark.parametrize(("law", "drafter"), CASES, ids=case_label)
def test_t02_t24_twenty_thousand_tokens_of_long_answers_follow_their_rows(law, drafter):
    """A position that a lossy law decided follows its emitted row, any other the target's own."""
    engine = serve(
        law,
        drafter,
        TABLE,
        DRAFT_TABLE,
        context_len=ANSWER_LEN + 20,
        capacity_tokens=NUM_ANSWERS * (ANSWER_LEN + 40),
        max_num_seqs=NUM_ANSWERS,
    )
    prompt = (0, 1, 2, 3, 0, 1)
    asked = [ask(prompt, f"{i}", max_tokens=ANSWER_LEN, seed=90 + i) for i in range(NUM_ANSWERS)]
    counts = np.zeros((2, 4, 4))
    for deltas in run_all(engine, *asked).values():
        before = prompt[-1]
        steps = deltas[-1].receipt.per_step
        assert len(steps) == len(deltas)
        for delta, (drafted, _) in zip(deltas, steps, strict=True):
            for place, token in enumerate(delta.token_ids):
                counts[int(place < drafted), before, token] += 1
                before = token
    assert counts.sum() == NUM_ANSWERS * ANSWER_LEN
    closed, statistic, freedom = build_law(law), 0.0, 0
    for is_decided, before in itertools.product((0, 1), range(4)):
        target, draft = TABLE[(before,)], DRAFT_TABLE[(before,)]
        row = target
        if is_decided and law in LOSSY:
            row = closed.emitted_probs(RowPair(target[None], draft[None]))[0]
        seen = counts[is_decided, before]
        if seen.sum() * row.min() >= 5:
            statistic += stats.chisquare(seen, row * seen.sum()).statistic
            freedom += 3
    assert freedom >= 12
    assert stats.chi2.sf(statistic, freedom) > FALSE_ALARM_RATE
    if law in LOSSY:  # the same count tells the target's own row apart
        decided = counts[1]
        target = np.array([TABLE[(before,)] for before in range(4)])
        own = (target * decided.sum(axis=1, keepdims=True)).ravel()
        assert np.sum((decided.ravel() - own) ** 2 / own) > stats.chi2.isf(FALSE_ALARM_RATE, 12)


def test_t04_a_coin_used_for_two_purposes_is_caught():
    class Reused(Recorded):
        def draw(self, probs, *, step, row, purpose):
            purpose = Purpose.ACCEPT if purpose is Purpose.RECOVER else purpose
            return super().draw(probs, step=step, row=row, purpose=purpose)

    engine = serve(Acceptance(), "draft_model", TABLE, DRAFT_TABLE, make_coins=Reused)
    with pytest.raises(AssertionError, match="thrown twice"):
        run_all(engine, *(ask((0,), f"r{seed}", max_tokens=20, seed=seed) for seed in range(4)))
