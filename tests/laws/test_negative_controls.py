"""Faults that the enumeration must catch: each one makes the joint law visibly wrong.

The first test shows that the same comparison passes without a fault.
"""

from dataclasses import replace

import numpy as np
import pytest
from tests.support.enumerate_coins import enumerate_outcomes
from tests.support.law_cases import build
from tests.support.toy_decoding import (
    Tables,
    decode,
    distance,
    point_mass_drafts,
    product_law,
    random_tables,
)

from leeway.acceptance.base import RowPair
from leeway.core.rng import Purpose

VISIBLE = 1e-3
WIDE = random_tables(3, 2, seed=1)
DEEP = random_tables(2, 4, seed=1)
PAIR = RowPair(WIDE.target[()], WIDE.draft[()])


class Rekeyed:
    """Coins whose keys go through a function: a fault in keying."""

    def __init__(self, coins, rekey):
        self._coins = coins
        self._rekey = rekey

    def accepts(self, probability, *, step, row, purpose):
        step, row, purpose = self._rekey(step, row, purpose)
        return self._coins.accepts(probability, step=step, row=row, purpose=purpose)

    def draw(self, probs, *, step, row, purpose):
        step, row, purpose = self._rekey(step, row, purpose)
        return self._coins.draw(probs, step=step, row=row, purpose=purpose)


class Wrong:
    """A law with some of its answers replaced."""

    def __init__(self, law, **replaced):
        self._law = law
        self._replaced = replaced

    def __getattr__(self, name):
        return self._replaced[name] if name in self._replaced else getattr(self._law, name)


def error(law, tables=WIDE, rekey=None, **options):
    """Return the total variation between what the loop emits and the target's joint law."""
    length = tables.depth

    def run(coins):
        return decode(law, tables, length, Rekeyed(coins, rekey) if rekey else coins, **options)

    return distance(enumerate_outcomes(run), product_law(lambda one: tables.target[one], length))


def reused(wrong, instead):
    """Return a rekeying that throws one purpose's coin for another."""
    return lambda step, row, purpose: (step, row, instead if purpose is wrong else purpose)


def by_position(step, row, purpose):
    """Return the key by absolute position, the same in every block that reaches it."""
    return step + row, 0, purpose


@pytest.mark.parametrize("name", ["rejection", "block", "sample_match"])
def test_without_a_fault_the_comparison_passes(name):
    def same(*key):
        return key

    assert error(build(name), rekey=same) < 1e-12


@pytest.mark.parametrize("name", ["rejection", "block"])
def test_accept_coin_reused_for_the_residual(name):
    assert error(build(name), rekey=reused(Purpose.RECOVER, Purpose.ACCEPT)) > VISIBLE


@pytest.mark.parametrize("name", ["rejection", "block"])
def test_draft_coin_reused_for_the_residual(name):
    assert error(build(name), rekey=reused(Purpose.RECOVER, Purpose.DRAFT)) > VISIBLE


@pytest.mark.parametrize("name", ["rejection", "block"])
def test_draft_coin_reused_for_acceptance(name):
    assert error(build(name), rekey=reused(Purpose.ACCEPT, Purpose.DRAFT)) > VISIBLE


def test_sample_match_may_share_the_coin_of_the_draft():
    """Not a fault: what is emitted never depends on the draft, only how far a block gets does."""

    def rekey(step, row, purpose):
        return step + row, 0, Purpose.DRAFT

    assert error(build("sample_match"), DEEP, rekey=rekey) < 1e-12


def test_residual_redrawn_from_the_whole_target_row():
    law = build("rejection")
    wrong = Wrong(law, recovered_probs=lambda rows, columns=None: rows.target_probs)
    assert error(wrong) > VISIBLE


def test_point_mass_draft_with_the_whole_target_row_favours_the_draft():
    law = build("rejection")
    wrong = Wrong(law, recovered_probs=lambda rows, columns=None: rows.target_probs)
    row = np.array([0.5, 0.3, 0.2])
    prefixes = random_tables(3, 1).target
    tables = Tables(3, 1, dict.fromkeys(prefixes, row), dict.fromkeys(prefixes, np.eye(3)[0]))
    emitted = enumerate_outcomes(lambda coins: decode(wrong, tables, 1, coins))
    assert abs(emitted[0,] - row[0] * (2 - row[0])) < 1e-12
    assert error(law, point_mass_drafts(tables)) < 1e-12


def sharper(row):
    """Return the row at a lower temperature."""
    return row**2 / np.sum(row**2)


@pytest.mark.parametrize("name", ["rejection", "block"])
def test_draft_row_other_than_the_one_drawn_from(name):
    assert error(build(name), believed_draft=sharper) > VISIBLE


def test_sample_match_does_not_care_about_the_draft_row():
    assert error(build("sample_match"), believed_draft=sharper) < 1e-12


@pytest.mark.parametrize("is_drafting_too", [False, True])
def test_block_coins_keyed_by_absolute_position(is_drafting_too):
    def rekey(step, row, purpose):
        is_wrong = purpose is Purpose.ACCEPT or (is_drafting_too and purpose is Purpose.DRAFT)
        return by_position(step, row, purpose) if is_wrong else (step, row, purpose)

    assert error(build("block"), DEEP, rekey=rekey) > VISIBLE


def test_token_coins_keyed_by_absolute_position_are_harmless_without_the_drafts():
    """Token verification consults no accept coin behind the stop, so nothing is reused."""

    def rekey(step, row, purpose):
        return (
            by_position(step, row, purpose) if purpose is Purpose.ACCEPT else (step, row, purpose)
        )

    assert error(build("rejection"), DEEP, rekey=rekey) < 1e-12


def test_drafts_keyed_by_absolute_position():
    """A rejected block's later drafts were looked at by nobody, under token verification."""

    def rekey(step, row, purpose):
        return by_position(step, row, purpose) if purpose is Purpose.DRAFT else (step, row, purpose)

    assert error(build("rejection"), DEEP, rekey=rekey) < 1e-12
    assert error(build("block"), DEEP, rekey=rekey) > VISIBLE


def test_dropping_a_sampled_token_for_its_low_draft_probability():
    """Drop x when q(x) < 1/2, then draw from p: biased; why drafts stop on rows, not on tokens."""
    p, q = np.array([0.5, 0.5]), np.array([0.8, 0.2])
    rows = RowPair(p, q)
    law = build("rejection")
    accept, recovered = law.accept_probs(rows), law.recovered_probs(rows)
    kept = q >= 0.5
    emitted = np.where(kept, q * accept, 0) + np.sum(q * ~kept) * p
    emitted += np.sum(q * kept * (1 - accept)) * recovered
    assert np.abs(emitted - [0.6, 0.4]).max() < 1e-12


def test_lossy_law_judged_against_another_alpha_is_caught():
    law, other = build("tokenv3", alpha=0.5), build("tokenv3", alpha=0.9)
    emitted = enumerate_outcomes(lambda coins: decode(law, WIDE, 1, coins))
    claimed = other.emitted_probs(PAIR)
    assert max(abs(emitted.get((token,), 0) - claimed[token]) for token in range(3)) > VISIBLE


def test_wrong_off_set_is_caught():
    law = build("tokenv3", alpha=0.5, off_set="pi")
    shortcut = replace(law, off_set="coin")
    difference = law.emitted_probs(PAIR) - shortcut.emitted_probs(PAIR)
    emitted = enumerate_outcomes(lambda coins: decode(shortcut, WIDE, 1, coins))
    claimed = law.emitted_probs(PAIR)
    found = max(abs(emitted.get((token,), 0) - claimed[token]) for token in range(3))
    assert abs(found - np.abs(difference).max()) < 1e-12
    assert found > VISIBLE
