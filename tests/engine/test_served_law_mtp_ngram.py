"""The served loop with head and n-gram lookup in one drafter, enumerated over every draft and coin.

Which of them drafts, and how much, follows committed tokens and past blocks only. So exact laws
give the target's joint law, and lossy ones the law of a slow reference that follows blocks one by
one, a point mass where an n-gram drafted and the head's rows elsewhere. Every such test checks that
both drafted within one request. A choice that looks at the tokens just drawn is caught.
"""

import copy
import itertools
from collections import Counter

import numpy as np
import pytest
from tests.engine.test_served_law import EXACT, LOSSY, distance, label, target_law
from tests.engine.test_served_law_mtp import Fleeting, draft_row, make_head
from tests.engine.test_serving_head import fail_once
from tests.support.enumerate_coins import enumerate_outcomes
from tests.support.tabular_engine import ask, make_engine, run_all, token_ids

from leeway.acceptance.base import RowPair
from leeway.acceptance.registry import build_law
from leeway.backends.tabular import TabularBackend, random_table
from leeway.backends.tabular_head import TabularHead
from leeway.core.draft_value import promises
from leeway.core.errors import BackendError
from leeway.core.types import Acceptance, Draft
from leeway.drafters.mtp_ngram import HEAD, MTPNGramDrafter, _Past
from leeway.drafters.ngram import NGRAM_SIZES

PROMPT = (0, 1, 0)
COSTS = {"ngram_cost": 0.03, "head_cost": 0.3}
"""At these a lookup is tried first, and one that failed soon gives way to the head."""


class Both(Fleeting, MTPNGramDrafter):
    """The drafter, its observations spoilt; keeps who drafted what, by request."""

    def __init__(self, head, vocab_size, **costs):
        MTPNGramDrafter.__init__(self, head, vocab_size, **(costs or COSTS))
        self.drafted = {}

    def propose(self, asks):
        drafts = super().propose(asks)
        for one, draft in zip(asks, drafts, strict=True):
            if draft.token_ids:
                source = "ngram" if draft.rows is None else "head"
                self.drafted.setdefault(one.request_id, []).append(source)
        return drafts


def served_law(table, head, acceptance, *, k, max_tokens, drafter=Both, **sampling):
    """Enumerate the engine: outcome to probability, and who drafted in each of the runs."""
    seen = set()

    def run(coins):
        own = drafter(head, len(table[()]))
        engine = make_engine(
            table,
            drafter=own,
            acceptance=acceptance,
            num_speculative_tokens=k,
            make_coins=lambda _: coins,
        )
        deltas = run_all(engine, ask(PROMPT, max_tokens=max_tokens, seed=0, **sampling))["a"]
        receipt = deltas[-1].receipt
        receipt.tally.check()
        assert receipt.drafter == "mtp_ngram" and head.num_open() == 0
        seen.add(tuple(own.drafted.get("a", ())))
        return token_ids(deltas)

    return enumerate_outcomes(run), seen


def changes(seen):
    """Return the changes of source that happened within single requests."""
    return {pair for sources in seen for pair in itertools.pairwise(sources)}


BOTH_WAYS = {("ngram", "head"), ("head", "ngram")}


@pytest.mark.parametrize("acceptance", EXACT, ids=label)
@pytest.mark.parametrize(
    ("vocab_size", "k", "max_tokens", "ids"), [(2, 1, 5, None), (2, 2, 6, None), (3, 2, 4, (0, 2))]
)
def test_t02_exact_laws_give_the_targets_joint_law(acceptance, vocab_size, k, max_tokens, ids):
    table = random_table(vocab_size, 1, seed=vocab_size)
    law, seen = served_law(table, make_head(table, ids), acceptance, k=k, max_tokens=max_tokens)
    assert distance(law, target_law(table, max_tokens, PROMPT)) < 1e-12
    assert changes(seen) >= (BOTH_WAYS if vocab_size == 2 else {("ngram", "head")})


@pytest.mark.parametrize(
    "sampling",
    [{"temperature": 1.3, "top_p": 0.8}, {"temperature": 0.7, "repetition_penalty": 1.4}],
    ids=str,
)
@pytest.mark.parametrize("acceptance", EXACT, ids=label)
def test_t02_t10_t11_drafting_changes_nothing_about_sampling(acceptance, sampling):
    table = random_table(3, 1, seed=5)
    head = make_head(table, (0, 2))
    drafted, seen = served_law(table, head, acceptance, k=2, max_tokens=4, **sampling)

    def run(coins):
        engine = make_engine(table, make_coins=lambda _: coins)
        return token_ids(run_all(engine, ask(PROMPT, max_tokens=4, seed=0, **sampling))["a"])

    assert distance(enumerate_outcomes(run), drafted) < 1e-12
    assert changes(seen)


def slow_match(text, most):
    """Return (size, continuation) of the longest, then latest earlier occurrence; None if none."""
    for size in sorted(NGRAM_SIZES, reverse=True):
        for end in range(len(text) - 1, size - 1, -1):
            if text[end - size : end] == text[len(text) - size :]:
                whole = list(text)
                while len(whole) < end + most:  # text that repeats itself goes on so
                    whole.append(whole[len(whole) - (len(text) - end)])
                return size, tuple(whole[end : end + most])
    return None


class SlowChoice:
    """The documented rule, step by step; `past` is the drafter's own, tested by itself."""

    def __init__(self, needs_rows):
        self.past, self.needs_rows = _Past(), needs_rows

    def choose(self, text, most):
        """Return a copy that has learnt, the n-gram's tokens or None, and the draft's length."""
        then = copy.deepcopy(self)
        then.past.learn(text)
        head = [*promises([then.past.rate(HEAD)] * most, COSTS["head_cost"])]
        match = None if self.needs_rows else slow_match(text, most)
        if match is not None:
            size, tokens = match
            then.past.guesses[size] = tokens
            *_, value = promises([then.past.rate(size)] * len(tokens), COSTS["ngram_cost"])
            if value >= max(head):
                return then, tokens, len(tokens)
        return then, None, int(np.argmax(head)) + 1

    def with_head(self, guess, length):
        """Return a copy that knows what the head drafted, as far as it can matter."""
        then = copy.deepcopy(self)
        then.past.guesses[HEAD] = (*guess, *[-1] * (length - len(guess)))
        return then


def reference_law(table, head, acceptance, k, max_tokens):
    """Follow blocks one by one: accept and go on, or emit the recovered row and start anew."""
    law, outcomes, vocab_size = build_law(acceptance), Counter(), len(table[()])

    def begin(text, probability, choice):
        left = len(PROMPT) + max_tokens - len(text)
        most = min(k, left - 1)
        if probability == 0 or left == 0:
            outcomes[text[len(PROMPT) :]] += probability
        elif most == 0:
            judge(text, (), None, 0, probability, choice)
        else:
            choice, tokens, length = choice.choose(text, most)
            judge(text, (), tokens, length, probability, choice)

    def judge(text, guess, tokens, length, probability, choice):
        target = table[text[-1:]]
        if len(guess) == length:
            then = choice if tokens is not None or length == 0 else choice.with_head(guess, length)
            for token in range(vocab_size):
                begin((*text, token), probability * target[token], then)
            return
        if tokens is None:
            draft = draft_row(head, text, len(guess))
        else:
            draft = np.eye(vocab_size)[tokens[len(guess)]]
        rows = RowPair(target[None], draft[None])
        accept, recovered = law.accept_probs(rows)[0], law.recovered_probs(rows)[0]
        for drawn in np.flatnonzero(draft):
            longer = (*guess, int(drawn))
            chance = probability * draft[drawn]
            judge((*text, int(drawn)), longer, tokens, length, chance * accept[drawn], choice)
            then = choice if tokens is not None else choice.with_head(longer, length)
            for token in range(vocab_size):
                rest = chance * (1 - accept[drawn]) * recovered[token]
                begin((*text, token), rest, then)

    choice = SlowChoice(law.info.needs_draft_rows)
    for token in range(vocab_size):
        begin((*PROMPT, token), table[PROMPT[-1:]][token], choice)
    return outcomes


@pytest.mark.parametrize("acceptance", LOSSY, ids=label)
def test_t02_lossy_laws_equal_the_slow_reference(acceptance):
    table = random_table(2, 1, seed=21)
    head = make_head(table, None)
    law, seen = served_law(table, head, acceptance, k=2, max_tokens=5)
    assert distance(law, reference_law(table, head, acceptance, 2, 5)) < 1e-12
    assert distance(law, target_law(table, 5, PROMPT)) > 1e-4
    if build_law(acceptance).info.needs_draft_rows:
        assert {source for sources in seen for source in sources} == {"head"}
    else:
        assert changes(seen) >= BOTH_WAYS


class Peeking(Both):
    """A fault: the head's draft is taken only where it says what the n-gram says."""

    def propose(self, asks):
        drafts = super().propose(asks)
        found = [self._ngrams.look_up(one) for one in asks]
        return [
            draft if match is None or draft.token_ids == match.token_ids else Draft(match.token_ids)
            for draft, match in zip(drafts, found, strict=True)
        ]


def test_t02_a_choice_that_looks_at_the_tokens_drawn_is_caught():
    table = random_table(2, 1, seed=3)
    head = make_head(table, None)
    for drafter, is_exact in ((Both, True), (Peeking, False)):
        law, _ = served_law(table, head, Acceptance(), k=1, max_tokens=5, drafter=drafter)
        assert (distance(law, target_law(table, 5, PROMPT)) < 1e-12) == is_exact


LONG = tuple(np.random.default_rng(3).integers(0, 4, size=37).tolist())
REQUESTS = [
    ask((0, 1), "two", max_tokens=24, seed=1),
    ask((3, 1, 2, 2, 0, 1), "six", max_tokens=20, seed=2, temperature=0.7, top_k=3),
    ask(LONG, "long", max_tokens=24, seed=3, top_p=0.9),
    ask((1, 1, 2), "greedy", max_tokens=20, temperature=0.0),
]
BY_DEFAULT = {"ngram_cost": 0.03, "head_cost": 0.11}


def run_seeded(requests, seed=6, acceptance=None, **options):
    """Run requests on one engine with keyed coins: name to (tokens, steps, who drafted)."""
    table = random_table(4, 1, seed=seed)
    head = make_head(table, (0, 2, 3))
    drafter = Both(head, 4, **BY_DEFAULT)
    engine = make_engine(
        table, drafter=drafter, num_speculative_tokens=4, acceptance=acceptance, **options
    )
    finished = run_all(engine, *requests)
    assert head.num_open() == engine.parts.backend.num_open() == 0
    return {
        name: (token_ids(deltas), deltas[-1].receipt.per_step, drafter.drafted.get(name, []))
        for name, deltas in finished.items()
    }


def greedy_answer(seed, prompt, num_tokens):
    table, context = random_table(4, 1, seed=seed), list(prompt)
    for _ in range(num_tokens):
        context.append(int(table[tuple(context[-1:])].argmax()))
    return tuple(context[len(prompt) :])


@pytest.mark.parametrize("acceptance", EXACT, ids=label)
@pytest.mark.parametrize("seed", range(4))
def test_t01_greedy_answers_are_those_of_plain_decoding(acceptance, seed):
    """A table's greedy text soon repeats: the head begins, and the n-grams go on."""
    request = ask((0, 2), max_tokens=24, temperature=0.0)
    tokens, steps, drafted = run_seeded([request], seed, acceptance)["a"]
    assert tokens == greedy_answer(seed, (0, 2), 24)
    assert drafted[0] == "head" and drafted[-1] == "ngram"
    assert sum(accepted for _, accepted in steps) > 8


@pytest.mark.parametrize("law", ["rejection", "typical"])
def test_t17_requests_together_equal_each_alone(law):
    acceptance = Acceptance(law, {"delta": 0.3} if law == "typical" else {})
    together = run_seeded(REQUESTS, acceptance=acceptance)
    waiting = run_seeded(REQUESTS, acceptance=acceptance, max_num_seqs=2)
    for request in REQUESTS:
        name = request.request_id
        alone = run_seeded([request], acceptance=acceptance)[name]
        assert alone == together[name] == waiting[name]
        assert set(alone[2]) == {"ngram", "head"}


def test_t24_adaptive_lengths_leave_room_for_both():
    table = random_table(4, 1, seed=6)
    drafter = Both(make_head(table, (0, 2, 3)), 4, **BY_DEFAULT)
    engine = make_engine(table, drafter=drafter, num_speculative_tokens=4)
    engine.draft_length = type(engine.draft_length)(is_adaptive=True, draft_cost=0.05)
    receipts = {name: deltas[-1].receipt for name, deltas in run_all(engine, *REQUESTS).items()}
    for name, receipt in receipts.items():
        assert receipt.to_dict()["draft_length"] == "adaptive"
        assert set(drafter.drafted[name]) == {"ngram", "head"}
        assert len({drafted for drafted, _ in receipt.per_step}) > 1


@pytest.mark.parametrize("num_good", range(1, 12, 2))
def test_a_forward_of_the_head_that_fails_once_is_made_up_for(num_good, monkeypatch):
    """The engine tries each request alone: choices and answers are those of a quiet run."""
    expected = run_seeded(REQUESTS)
    calls = fail_once(monkeypatch, num_good)
    found = run_seeded(REQUESTS)
    assert {name: run[:2] for name, run in found.items()} == {
        name: run[:2] for name, run in expected.items()
    }
    assert next(calls) > num_good


def test_t24_a_head_that_always_fails_costs_its_drafts_and_nothing_else(monkeypatch, caplog):
    def failing(self, inputs):
        raise BackendError("the head is broken")

    monkeypatch.setattr(TabularHead, "forward", failing)
    found = run_seeded(REQUESTS)
    for request in REQUESTS:
        tokens, steps, drafted = found[request.request_id]
        assert len(tokens) == request.sampling.max_tokens
        assert set(drafted) == {"ngram"} and (0, 0) in steps
    assert found["greedy"][0] == greedy_answer(6, (1, 1, 2), 20)
    lines = [line for line in caplog.messages if "mtp_ngram failed" in line]
    assert len(lines) == len({line.partition(":")[0] for line in lines}) > 1


def test_a_target_that_fails_once_counts_no_block_twice(monkeypatch):
    """Its step is tried again request by request; what the drafter learnt stays learnt once."""
    expected = run_seeded(REQUESTS)
    forward, calls = TabularBackend.forward, itertools.count()

    def failing(self, inputs):
        if next(calls) == 9:
            raise BackendError("a passing failure")
        return forward(self, inputs)

    monkeypatch.setattr(TabularBackend, "forward", failing)
    found = run_seeded(REQUESTS)
    assert {name: run[:2] for name, run in found.items()} == {
        name: run[:2] for name, run in expected.items()
    }
