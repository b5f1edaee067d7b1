"""Many blocks at once: the law over all coins, and the verdicts of `verify` with the same coins."""

from dataclasses import replace

import numpy as np
import pytest
from tests.support.array_kinds import KINDS, numbers
from tests.support.law_cases import ALL, LOSSY, build, label
from tests.support.many_requests import GivenCoins, emitted_law, random_batch
from tests.support.toy_decoding import emitted_row, largest_difference, product_law, random_tables

from leeway.acceptance.base import RowPair
from leeway.acceptance.limits import limit_law
from leeway.acceptance.loss import draft_total_variation, loss, loss_many
from leeway.acceptance.registry import build_law
from leeway.acceptance.verify import verify
from leeway.core.errors import LawError
from leeway.core.limits import Limits
from leeway.core.types import Acceptance

GREEDY = "greedy_match"
LENGTHS = [2, 0, 3, 1, 3, 0, 0, 2, 1]
FIELDS = ("num_accepted", "next_columns", "is_bonus", "is_kept", "is_decided")
DEFAULTS = [
    Acceptance("rejection"),
    Acceptance("block"),
    Acceptance("greedy_match"),
    Acceptance("tokenv3", {"alpha": 0.5, "off_set": "coin"}),
    Acceptance("typical", {"delta": 0.5, "verifier": "block"}),
]
pytestmark = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def assert_equal(one, other):
    for name in FIELDS:
        np.testing.assert_array_equal(numbers(getattr(one, name)), numbers(getattr(other, name)))


def completed(served, next_row, length):
    """Return the law of `length` tokens: what stops early goes on by the closed form."""
    for done in range(1, length):
        for prefix in [outcome for outcome in served if len(outcome) == done]:
            weight = served.pop(prefix)
            for token, probability in enumerate(next_row(prefix)):
                longer = (*prefix, token)
                served[longer] = served.get(longer, 0.0) + weight * float(probability)
    return served


@pytest.mark.parametrize("acceptance", ALL, ids=label)
@pytest.mark.parametrize(("vocab_size", "max_len"), [(2, 3), (3, 2)])
def test_over_all_drafts_and_coins_the_law_is_the_closed_form(
    acceptance, vocab_size, max_len, kind
):
    law, tables = build_law(acceptance), random_tables(vocab_size, max_len, seed=33, holes=True)
    emitted = emitted_row(law, tables)
    for depth, served in emitted_law(law, tables, max_len, kind).items():

        def next_row(prefix, depth=depth):
            if len(prefix) < depth:
                return emitted(prefix)
            target = tables.target[prefix]  # behind the block comes the target's own row
            return np.eye(vocab_size)[target.argmax()] if law.info.name == GREEDY else target

        assert abs(sum(served.values()) - 1) < 1e-12
        whole = completed(served, next_row, depth + 1)
        assert largest_difference(whole, product_law(next_row, depth + 1)) < 1e-11


def verdict_of_one(law, batch, request):
    """Return (accepted, column, deferred) by `verify` with the request's own coins."""
    one = batch.alone(request)
    coins = GivenCoins(one.coins[0], float(one.next_coins[0]))
    verdict = verify(law, one.rows, one.next_probs[0], one.columns, coins, 0)
    return verdict.num_accepted, verdict.next_column, list(verdict.deferred)


@pytest.mark.parametrize("acceptance", [one for one in ALL if one.law != "sample_match"], ids=label)
def test_with_the_same_coins_the_verdict_is_that_of_verify(acceptance, kind):
    law = build_law(acceptance)
    for seed in range(8):
        batch = random_batch(LENGTHS, 4, seed)
        verdicts = batch.verify(law, kind)
        decided, kept = numbers(verdicts.is_decided), numbers(verdicts.is_kept)
        for request, length in enumerate(LENGTHS):
            accepted, column, deferred = verdict_of_one(law, batch, request)
            assert int(verdicts.num_accepted[request]) == accepted
            assert int(verdicts.next_columns[request]) == column
            assert bool(verdicts.is_bonus[request]) == (accepted == length)
            assert decided[request].sum() == len(deferred)
            assert decided[request, : len(deferred)].all()
            assert (~kept[request, : len(deferred)]).tolist() == deferred
            assert not kept[request, length:].any()


@pytest.mark.parametrize("acceptance", DEFAULTS, ids=label)
@pytest.mark.parametrize("gap", [0, 1])
def test_a_request_in_a_batch_is_judged_as_if_alone(acceptance, gap, kind):
    law = build_law(acceptance)
    batch = random_batch(LENGTHS, 5, seed=1, gap=gap)
    verdicts = batch.verify(law, kind)
    for request in range(len(LENGTHS)):
        alone = batch.alone(request).verify(law, kind)
        for name in FIELDS:
            own = numbers(getattr(verdicts, name))[request]
            np.testing.assert_array_equal(own, numbers(getattr(alone, name))[0])


@pytest.mark.parametrize("acceptance", DEFAULTS, ids=label)
def test_without_any_draft_tokens_each_request_gets_its_bonus(acceptance, kind):
    batch = random_batch([0, 0, 0], 4, seed=2)
    for width in (0, 3):
        wide = replace(batch, coins=np.zeros((3, width)))
        verdicts = wide.verify(build_law(acceptance), kind)
        assert numbers(verdicts.num_accepted).tolist() == [0, 0, 0]
        assert numbers(verdicts.is_bonus).all()
        assert numbers(verdicts.is_decided).shape == (3, width)
        assert not numbers(verdicts.is_decided).any()
        assert not numbers(verdicts.is_kept).any()
        for request in range(3):
            column = verdict_of_one(build_law(acceptance), wide, request)[1]
            assert int(verdicts.next_columns[request]) == column


def test_bonus_tokens_that_somebody_else_draws(kind):
    batch = random_batch(LENGTHS, 4, seed=3)
    whole = batch.verify(build("rejection"), kind)
    part = replace(batch, next_probs=None).verify(build("rejection"), kind)
    is_bonus = numbers(whole.is_bonus)
    expected = np.where(is_bonus, -1, numbers(whole.next_columns))
    assert is_bonus.any()
    assert numbers(part.next_columns).tolist() == expected.tolist()
    none = replace(random_batch([0], 4, seed=3), next_probs=None)
    assert numbers(none.verify(build("rejection"), kind).next_columns).tolist() == [-1]


def test_short_integers_will_do_as_columns(kind):
    batch = random_batch(LENGTHS, 4, seed=4)
    short = replace(batch, columns=batch.columns.astype(np.int32))
    assert_equal(batch.verify(build("rejection"), kind), short.verify(build("rejection"), kind))


def point_masses(seed):
    """Return a batch of certain drafts, without its draft rows and with them written out."""
    batch = random_batch(LENGTHS, 4, seed)
    target = batch.rows.target_probs
    raw = np.roll(target, 1, axis=-1)
    share = np.random.default_rng(seed).random(len(target))
    rows = RowPair(target, None, raw, lossy_share=share)
    written = RowPair(target, np.eye(4)[batch.columns], raw, lossy_share=share)
    return replace(batch, rows=rows), replace(batch, rows=written)


WITHOUT_ROWS = [one for one in ALL if not build_law(one).info.needs_draft_rows] + [
    Acceptance("tokenv3", {"alpha": 0.6, "off_set": off_set, "rows": "raw"})
    for off_set in ("redraw", "pi", "coin", "argmax")
]


@pytest.mark.parametrize("limits", [Limits(), Limits(tv_budget=0.1, hard_support=True)], ids=str)
@pytest.mark.parametrize("acceptance", WITHOUT_ROWS, ids=label)
def test_point_masses_need_no_draft_rows(acceptance, limits, kind):
    law = limit_law(build_law(acceptance), limits)
    for seed in range(6):
        batch, written = point_masses(seed)
        verdicts = batch.verify(law, kind)
        assert_equal(verdicts, written.verify(law, kind))
        blocks, columns = batch.blocks(kind), kind.array(batch.columns)
        values = loss_many(law, kind.rows(batch.rows), columns, blocks, verdicts.is_decided)
        decided = numbers(verdicts.is_decided)
        for value, flat in zip(values, loss(law, written.rows), strict=True):
            expected = np.where(decided, batch.blocks(KINDS[0]).grid(flat), 0.0)
            np.testing.assert_allclose(numbers(value), expected, rtol=0, atol=1e-12)
        distance = draft_total_variation(kind.rows(batch.rows), columns)
        expected = draft_total_variation(written.rows)
        np.testing.assert_allclose(numbers(distance), expected, atol=1e-12)


@pytest.mark.parametrize("name", ["opt", "diff", "tokenv1"])
def test_a_law_that_reads_draft_rows_is_refused_without_them(name, kind):
    batch, _ = point_masses(0)
    with pytest.raises(LawError, match=f"law '{name}' reads the rows") as caught:
        batch.verify(build(name, alpha=0.1), kind)
    assert caught.value.param == "law"


@pytest.mark.parametrize("acceptance", LOSSY, ids=label)
def test_the_loss_of_decided_positions(acceptance, kind):
    law = build_law(acceptance)
    batch = random_batch(LENGTHS, 4, seed=5, gap=1)
    verdicts = batch.verify(law, kind)
    decided, first = numbers(verdicts.is_decided), batch.first_rows
    assert 0 < decided.sum() < len(batch.columns)
    columns, blocks = kind.array(batch.columns), batch.blocks(kind)
    values = loss_many(law, kind.rows(batch.rows), columns, blocks, verdicts.is_decided)
    for value, flat in zip(values, loss(law, batch.rows), strict=True):
        assert value.shape == decided.shape
        for (request, place), is_decided in np.ndenumerate(decided):
            expected = flat[first[request] + place] if is_decided else 0.0
            np.testing.assert_allclose(float(value[request, place]), expected, atol=1e-12)


def test_no_draft_tokens_no_loss(kind):
    batch = random_batch([0, 0], 4, seed=6)
    wide = replace(batch, coins=np.zeros((2, 2)))
    decided = wide.verify(build("clip", c1=1.3), kind).is_decided
    values = loss_many(
        build("clip", c1=1.3),
        kind.rows(wide.rows),
        kind.array(wide.columns),
        wide.blocks(kind),
        decided,
    )
    assert all(numbers(value).tolist() == [[0, 0], [0, 0]] for value in values)
