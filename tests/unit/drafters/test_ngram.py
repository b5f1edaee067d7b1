"""N-gram drafts against a slow search; index kept across commits."""

import numpy as np
import pytest

from leeway.core.rng import KeyedCoins
from leeway.core.types import Draft, SamplingParams
from leeway.drafters.base import DraftAsk
from leeway.drafters.ngram import NGramDrafter
from leeway.sampling.penalties import History

HISTORY = History(frozenset(), {})


def ask(tokens, num_draft_tokens=3, request_id="a"):
    return DraftAsk(
        request_id, tokens, num_draft_tokens, SamplingParams(), HISTORY, KeyedCoins(0), 0
    )


def slow(tokens, sizes, length):
    for size in sorted(sizes, reverse=True):
        for end in range(len(tokens) - 1, size - 1, -1):
            if tokens[end - size : end] == tokens[len(tokens) - size :]:
                found = tokens[end : end + length]
                while len(found) < length:
                    found.append(found[len(found) - (len(tokens) - end)])
                return tuple(found)
    return ()


@pytest.mark.parametrize("seed", range(5))
def test_growing_text_equals_the_slow_search(seed):
    generator = np.random.default_rng(seed)
    drafter = NGramDrafter(sizes=(3, 2))
    tokens = []
    found = 0
    while len(tokens) < 120:
        tokens += generator.integers(0, 3, size=generator.integers(1, 5)).tolist()
        draft = drafter.propose([ask(tokens)])[0]
        assert draft == Draft(slow(tokens, (3, 2), 3))
        found += bool(draft.token_ids)
    assert found > 10


def test_the_longest_and_latest_match_wins():
    tokens = [1, 2, 3, 9, 1, 2, 3, 8, 7, 2, 3, 5, 1, 2, 3]
    assert NGramDrafter((3, 2)).propose([ask(tokens)])[0].token_ids == (8, 7, 2)
    assert NGramDrafter((2,)).propose([ask(tokens)])[0].token_ids == (5, 1, 2)


def test_text_that_repeats_itself_goes_on_repeating():
    assert NGramDrafter((2,)).propose([ask([7, 5, 5, 5], 4)])[0].token_ids == (5, 5, 5, 5)
    assert NGramDrafter((2,)).propose([ask([1, 2, 3, 1, 2], 5)])[0].token_ids == (3, 1, 2, 3, 1)


def test_no_match_gives_an_empty_point_mass_draft():
    draft = NGramDrafter().propose([ask([1, 2, 3, 4])])[0]
    assert draft.token_ids == () and draft.rows is None


def test_requests_do_not_see_each_other_and_can_be_forgotten():
    drafter = NGramDrafter((2,))
    first, second = drafter.propose(
        [ask([1, 2, 3, 1, 2], request_id="a"), ask([1, 2], request_id="b")]
    )
    assert first.token_ids == (3, 1, 2) and second.token_ids == ()
    drafter.forget("a")
    drafter.forget("never seen")
    assert drafter.propose([ask([1, 2], request_id="a")])[0].token_ids == ()
