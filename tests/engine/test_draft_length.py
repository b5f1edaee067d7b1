"""Adaptive draft lengths in the served loop, enumerated over every draft and coin.

Lengths that follow past counts only leave every law what it says it is: exact laws give the
target's joint law under both verifiers; a lossy law gives its documented row at drafted positions
and the target's own elsewhere, as a slow reference that follows blocks one by one has it. A length
taken from the draft row before it is drawn from is as harmless; one taken from the drafted token is
not, and the same comparison catches it.
"""

import copy
import itertools

import numpy as np
import pytest
from tests.engine.test_served_law import EXACT, LOSSY, PROMPT, distance, label, tables, target_law
from tests.engine.test_served_law_mtp import Fleeting, make_head
from tests.support.enumerate_coins import enumerate_outcomes
from tests.support.tabular_engine import ask, make_engine, run_all, token_ids

from leeway.acceptance.base import RowPair
from leeway.acceptance.registry import build_law
from leeway.backends.tabular import TabularBackend, random_table
from leeway.core.types import Acceptance, Draft, Rows
from leeway.drafters.draft_model import ModelDrafter
from leeway.scheduler import draft_length
from leeway.scheduler.draft_length import DraftCounts, DraftLength

MIDDLING = DraftLength(is_adaptive=True, draft_cost=0.25)
DEAR = DraftLength(is_adaptive=True, draft_cost=0.5)


@pytest.fixture(autouse=True)
def probe_soon(monkeypatch):
    """Let a probe fall within the few steps that can be enumerated."""
    monkeypatch.setattr(draft_length, "PROBE_EVERY", 2)


def served_law(table, policy, acceptance, *, drafter, k, max_tokens, draft_table=None, seen=None):
    """Enumerate the engine: outcome (token ids) to probability; `seen` collects drafted lengths."""

    def run(coins):
        engine = make_engine(
            table,
            drafter=drafter() if callable(drafter) else drafter,
            draft_table=draft_table,
            acceptance=acceptance,
            num_speculative_tokens=k,
            make_coins=lambda _: coins,
        )
        engine.draft_length = policy
        deltas = run_all(engine, ask(PROMPT, max_tokens=max_tokens, seed=0))["a"]
        receipt = deltas[-1].receipt
        assert (receipt.to_dict()["draft_length"] == "adaptive") == policy.is_adaptive
        check_by_depth(receipt)
        if seen is not None:
            seen.add(tuple(drafted for drafted, _ in receipt.per_step))
        return token_ids(deltas)

    return enumerate_outcomes(run)


def check_by_depth(receipt):
    """Counts by depth, recounted from the steps, are those of the receipt."""
    tally = receipt.tally
    tally.check()
    for depth, (drafted, accepted) in enumerate(
        zip(tally.drafted_by_depth, tally.accepted_by_depth, strict=True)
    ):
        assert drafted == sum(step[0] > depth for step in receipt.per_step)
        assert accepted == sum(step[1] > depth for step in receipt.per_step)
    assert sum(tally.drafted_by_depth) == tally.num_draft_tokens
    rate = receipt.to_dict()["draft_acceptance_rate"]
    assert rate == (
        sum(tally.accepted_by_depth) / tally.num_draft_tokens if tally.num_draft_tokens else None
    )


@pytest.mark.parametrize("policy", [MIDDLING, DEAR], ids=["middling", "dear"])
@pytest.mark.parametrize("acceptance", EXACT, ids=label)
def test_t02_t24_exact_laws_stay_exact_under_lengths_that_follow_past_counts(acceptance, policy):
    table, draft_table = tables(2, seed=4)
    seen = set()
    law = served_law(
        table,
        policy,
        acceptance,
        drafter="draft_model",
        draft_table=draft_table,
        k=3,
        max_tokens=6,
        seen=seen,
    )
    assert distance(law, target_law(table, 6)) < 1e-12
    second_lengths = {steps[2] for steps in seen if sum(steps[:2]) == steps[1] and len(steps) > 4}
    assert len(second_lengths) > 1, "the enumeration never saw the length follow the counts"


@pytest.mark.parametrize("acceptance", EXACT, ids=label)
def test_t02_t24_exact_laws_with_point_mass_drafts(acceptance):
    table, _ = tables(2, seed=3)
    law = served_law(table, DEAR, acceptance, drafter="ngram", k=3, max_tokens=6)
    assert distance(law, target_law(table, 6)) < 1e-12


@pytest.mark.parametrize("acceptance", EXACT, ids=label)
def test_t02_t24_exact_laws_with_a_draft_head_that_is_left_out_of_steps(acceptance):
    table, seen = random_table(2, 1, seed=3), set()
    head = make_head(table, None)
    law = served_law(
        table,
        DEAR,
        acceptance,
        drafter=lambda: Fleeting(head, 2),
        k=3,
        max_tokens=5,
        seen=seen,
    )
    assert distance(law, target_law(table, 5)) < 1e-12
    assert len({steps[2] for steps in seen if len(steps) > 3}) > 1
    assert head.num_open() == 0


def token_blocks(law, target, draft, context, length):
    """Yield (probability, tokens, number accepted) of one block judged token by token."""
    if length == 0:
        for token, probability in enumerate(target[context[-1:]]):
            yield probability, (token,), 0
        return
    p, q = target[context[-1:]], draft[context[-1:]]
    rows = RowPair(p[None], q[None])
    accept, recovered = law.accept_probs(rows)[0], law.recovered_probs(rows)[0]
    rejected = float(np.sum(q * (1 - accept)))
    for token in range(len(p)):
        yield rejected * recovered[token], (token,), 0
        kept = q[token] * accept[token]
        for probability, tokens, accepted in token_blocks(
            law, target, draft, (*context, token), length - 1
        ):
            yield kept * probability, (token, *tokens), accepted + 1


def whole_blocks(law, target, draft, context, length):
    """Yield the same of one block judged as a whole, from the formulas of block verification.

    Source: Sun et al., 2024, arXiv 2403.10444, algorithm 2, with the law's row for the target's.
    """
    for path in itertools.product(range(len(target[context[-1:]])), repeat=length):
        behind = [(*context, *path[:depth])[-1:] for depth in range(length + 1)]
        rows = [
            law.emitted_probs(RowPair(target[one][None], draft[one][None]))[0] for one in behind
        ]
        rows[length] = target[behind[length]]
        drawn = float(np.prod([draft[behind[i]][path[i]] for i in range(length)]))
        weights, keeps = [1.0], []
        for i in range(length):
            ratio = rows[i][path[i]] / draft[behind[i]][path[i]]
            weights.append(min(1.0, weights[-1] * ratio))
        for i in range(1, length + 1):
            if i == length:
                keeps.append(weights[i])
                continue
            left = np.maximum(weights[i] * rows[i] - draft[behind[i]], 0).sum()
            keeps.append(left / (left + 1 - weights[i]) if left + 1 - weights[i] > 0 else 1.0)
        for accepted in range(length + 1):
            stops = keeps[accepted - 1] if accepted else 1.0
            stops *= float(np.prod([1 - keep for keep in keeps[accepted:]]))
            row = rows[length]
            if accepted < length:
                row = np.maximum(weights[accepted] * rows[accepted] - draft[behind[accepted]], 0)
                row = row / row.sum() if row.sum() > 0 else row
            for token, probability in enumerate(row):
                yield drawn * stops * probability, (*path[:accepted], token), accepted


BLOCKS = {"token": token_blocks, "block": whole_blocks}


def reference_law(table, draft_table, acceptance, policy, verifier, k, max_tokens):
    """Follow blocks one by one, each as long as the counts so far say."""
    law = build_law(acceptance)
    outcomes = {}

    def follow(context, probability, counts):
        done = len(context) - len(PROMPT)
        if probability == 0:
            return
        if done == max_tokens:
            outcome = context[len(PROMPT) :]
            outcomes[outcome] = outcomes.get(outcome, 0) + probability
            return
        most = 0 if done == 0 else min(k, max_tokens - done - 1)
        length = policy.choose(counts, most)
        for share, tokens, accepted in BLOCKS[verifier](law, table, draft_table, context, length):
            after = copy.deepcopy(counts)
            after.add(length, accepted)
            follow((*context, *tokens), probability * share, after)

    follow(PROMPT, 1.0, DraftCounts())
    return outcomes


@pytest.mark.parametrize("verifier", ["token", "block"])
@pytest.mark.parametrize("acceptance", LOSSY, ids=label)
def test_t02_t24_lossy_laws_keep_their_rows_at_drafted_positions(acceptance, verifier):
    table, draft_table = tables(2, seed=21)
    acceptance = Acceptance(acceptance.law, {**acceptance.options, "verifier": verifier})
    served = served_law(
        table,
        MIDDLING,
        acceptance,
        drafter="draft_model",
        draft_table=draft_table,
        k=2,
        max_tokens=5,
    )
    reference = reference_law(table, draft_table, acceptance, MIDDLING, verifier, 2, 5)
    assert distance(served, reference) < 1e-12


def test_the_reference_tells_policies_apart():
    table, draft_table = tables(2, seed=21)
    acceptance = Acceptance("typical", {"delta": 0.6})
    laws = [
        reference_law(table, draft_table, acceptance, policy, "token", 2, 5)
        for policy in (MIDDLING, DEAR, DraftLength())
    ]
    for one, other in itertools.combinations(laws, 2):
        assert distance(one, other) > 1e-4


P, Q = np.array([0.5, 0.5]), np.array([0.8, 0.2])
FLOOR = 0.5


class DropsUnlikelyTokens(ModelDrafter):
    """A fault: a drafted token is dropped because its own probability is low."""

    def propose(self, asks):
        return [cut_behind(draft, self.kept_len(draft)) for draft in super().propose(asks)]

    def kept_len(self, draft):
        drawn = [row[token] for row, token in zip(draft.rows.probs, draft.token_ids, strict=True)]
        return next((i for i, q in enumerate(drawn) if q < FLOOR), len(drawn))


class StopsAtFlatRows(DropsUnlikelyTokens):
    """No fault: the draft ends before a row that is flat, whatever would be drawn from it."""

    def kept_len(self, draft):
        return next(
            (i for i, row in enumerate(draft.rows.probs) if row.max() < FLOOR), len(draft.token_ids)
        )


def cut_behind(draft, length):
    if length == 0:
        return Draft(())
    return Draft(draft.token_ids[:length], Rows(draft.rows.probs[:length]))


def test_a_dropped_unlikely_token_is_caught_as_biased():
    table, draft_table = ({(): row, (0,): row, (1,): row} for row in (P, Q))
    by_drafter = {}
    for kind in (ModelDrafter, DropsUnlikelyTokens):
        law = served_law(
            table,
            DraftLength(),
            Acceptance(),
            drafter=lambda kind=kind: kind(TabularBackend(draft_table, 1), 2),
            k=1,
            max_tokens=3,
        )
        second = [sum(w for out, w in law.items() if out[1] == token) for token in (0, 1)]
        by_drafter[kind] = second
    assert by_drafter[ModelDrafter] == pytest.approx([0.5, 0.5], abs=1e-12)
    assert by_drafter[DropsUnlikelyTokens] == pytest.approx([0.6, 0.4], abs=1e-12)


@pytest.mark.parametrize("acceptance", [Acceptance(), Acceptance("block")], ids=label)
def test_the_row_decides_harmlessly_and_the_token_does_not(acceptance):
    table, draft_table = tables(3, seed=7)
    distances = {}
    for kind in (StopsAtFlatRows, DropsUnlikelyTokens):
        seen = set()
        law = served_law(
            table,
            DraftLength(),
            acceptance,
            drafter=lambda kind=kind: kind(TabularBackend(draft_table, 1), 3),
            k=2,
            max_tokens=4,
            seen=seen,
        )
        assert len(seen) > 2, "no draft was cut"
        distances[kind] = distance(law, target_law(table, 4))
    assert distances[StopsAtFlatRows] < 1e-12
    assert distances[DropsUnlikelyTokens] > 1e-2


def test_t17_t24_the_length_depends_on_no_other_request():
    table, draft_table = tables(3, seed=9)

    def answers(*names):
        engine = make_engine(
            table, drafter="draft_model", draft_table=draft_table, num_speculative_tokens=4
        )
        engine.draft_length = MIDDLING
        requests = [
            ask((0, index), name, max_tokens=20, seed=index) for index, name in enumerate("abc")
        ]
        found = run_all(engine, *(one for one in requests if one.request_id in names))
        return {name: (token_ids(out), out[-1].receipt.per_step) for name, out in found.items()}

    together = answers("a", "b", "c")
    for name, answer in together.items():
        assert answers(name)[name] == answer
        assert len({drafted for drafted, _ in answer[1][1:-5]}) > 1
