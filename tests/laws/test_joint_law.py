"""Several positions, enumerated through `verify` itself: the joint law is the documented one.

Once as a whole loop (after a rejection a new block of the remaining length), once as a single
block whose rest is filled in by closed form, which reaches vocabulary 4 at depth 4.
"""

import numpy as np
import pytest
from tests.support.enumerate_coins import enumerate_outcomes
from tests.support.law_cases import ALL, EXACT, build, label, under
from tests.support.toy_decoding import (
    Tables,
    decode,
    emitted_row,
    judge_block,
    largest_difference,
    point_mass_drafts,
    product_law,
    random_tables,
)

from leeway.acceptance.registry import build_law
from leeway.core.types import Acceptance

TOLERANCE = 1e-12


@pytest.mark.parametrize("acceptance", ALL, ids=label)
@pytest.mark.parametrize(("vocab_size", "length"), [(2, 3), (3, 2)])
def test_loop_emits_the_product_of_closed_form_rows(acceptance, vocab_size, length):
    law = build_law(acceptance)
    tables = random_tables(vocab_size, length, seed=7, holes=True)
    served = enumerate_outcomes(lambda coins: decode(law, tables, length, coins))
    assert largest_difference(served, product_law(emitted_row(law, tables), length)) < TOLERANCE


@pytest.mark.parametrize(
    "acceptance",
    [*EXACT, *(under(Acceptance("tokenv3", {"alpha": 0.4}), v) for v in ("token", "block"))],
    ids=label,
)
@pytest.mark.parametrize(("vocab_size", "length"), [(2, 4), (4, 2)])
def test_longer_loops(acceptance, vocab_size, length):
    law = build_law(acceptance)
    tables = random_tables(vocab_size, length, seed=3)
    served = enumerate_outcomes(lambda coins: decode(law, tables, length, coins))
    assert largest_difference(served, product_law(emitted_row(law, tables), length)) < TOLERANCE


def block_law(law, tables, depth):
    """Enumerate one block of `depth` draft tokens; fill shorter outcomes in by closed form."""
    row = emitted_row(law, tables)
    outcomes = enumerate_outcomes(lambda coins: judge_block(law, tables, (), depth, coins)[0])
    for length in range(1, depth + 1):
        for prefix in [outcome for outcome in outcomes if len(outcome) == length]:
            weight = outcomes.pop(prefix)
            # Behind the last drafted position comes the bonus row: the target's own.
            probs = row(prefix) if length < depth else bonus_row(law, tables, prefix)
            for token in np.flatnonzero(probs).tolist():
                longer = (*prefix, token)
                outcomes[longer] = outcomes.get(longer, 0.0) + weight * float(probs[token])
    return outcomes


def bonus_row(law, tables, prefix):
    if law.info.name == "greedy_match":
        return np.eye(tables.vocab_size)[tables.target[prefix].argmax()]
    return tables.target[prefix]


def expected_block_law(law, tables, depth):
    row = emitted_row(law, tables)
    return product_law(
        lambda prefix: row(prefix) if len(prefix) < depth else bonus_row(law, tables, prefix),
        depth + 1,
    )


@pytest.mark.parametrize("acceptance", ALL, ids=label)
@pytest.mark.parametrize(("vocab_size", "depth"), [(3, 3), (4, 4)])
def test_one_block_with_its_bonus(acceptance, vocab_size, depth):
    law = build_law(acceptance)
    tables = random_tables(vocab_size, depth, seed=vocab_size * 10 + depth, holes=True)
    served = block_law(law, tables, depth)
    assert largest_difference(served, expected_block_law(law, tables, depth)) < TOLERANCE


@pytest.mark.parametrize("acceptance", ALL, ids=label)
def test_point_mass_drafts(acceptance):
    law = build_law(acceptance)
    length = 4 if acceptance in EXACT else 3
    tables = point_mass_drafts(random_tables(3, length, seed=5, holes=True))
    served = enumerate_outcomes(lambda coins: decode(law, tables, length, coins))
    assert largest_difference(served, product_law(emitted_row(law, tables), length)) < TOLERANCE


def accepted_tokens(law, tables, depth):
    """Return the exact mean of accepted draft tokens in one block."""
    outcomes = enumerate_outcomes(
        lambda coins: (
            judge_block(law, tables, (), depth, coins, bonus_probs=np.eye(tables.vocab_size)[0])[
                1
            ].num_accepted
        )
    )
    return sum(length * weight for length, weight in outcomes.items())


def test_block_accepts_what_the_paper_says_on_its_toy():
    row, draft = np.array([1 / 3, 2 / 3]), np.array([2 / 3, 1 / 3])
    prefixes = random_tables(2, 2).target
    tables = Tables(2, 2, dict.fromkeys(prefixes, row), dict.fromkeys(prefixes, draft))
    assert abs(accepted_tokens(build("rejection"), tables, 2) - 10 / 9) < TOLERANCE
    assert abs(accepted_tokens(build("block"), tables, 2) - 11 / 9) < TOLERANCE


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("vocab_size", "depth"), [(2, 4), (3, 3)])
def test_block_never_accepts_fewer_tokens(vocab_size, depth, seed):
    tables = random_tables(vocab_size, depth, seed=seed)
    by_token = accepted_tokens(build("rejection"), tables, depth)
    by_block = accepted_tokens(build("block"), tables, depth)
    assert by_block >= by_token - TOLERANCE
    lossy_token = accepted_tokens(build("tokenv3", alpha=0.4), tables, depth)
    lossy_block = accepted_tokens(build("tokenv3", alpha=0.4, verifier="block"), tables, depth)
    assert lossy_block >= lossy_token - TOLERANCE


@pytest.mark.parametrize("name", ["rejection", "block", "sample_match"])
def test_without_drafts_a_block_is_one_token_of_the_target(name):
    tables = random_tables(3, 0)
    served = enumerate_outcomes(lambda coins: judge_block(build(name), tables, (), 0, coins)[0])
    assert largest_difference(served, product_law(lambda prefix: tables.target[prefix], 1)) < 1e-15
