"""The served loop with n-gram drafts under lossy laws, every coin enumerated.

A draft is a point mass and hangs on the whole text, so that no product of rows is the joint law:
it is compared with a slow reference that follows blocks one by one.
"""

from types import SimpleNamespace

import numpy as np
import pytest
from tests.engine.test_served_law import LOSSY, PROMPT, distance, label, served_law, target_law

from leeway.acceptance.base import RowPair
from leeway.acceptance.registry import build_law
from leeway.backends.tabular import random_table
from leeway.drafters.ngram import NGramDrafter

K, MAX_TOKENS = 2, 5
JUDGED = [one for one in LOSSY if not build_law(one).info.needs_draft_rows]


def drafted(context, most):
    """What n-grams of this text propose; a drafter that has seen nothing before says the same."""
    if most == 0:
        return ()
    asked = SimpleNamespace(request_id="", token_ids=context, num_draft_tokens=most)
    return NGramDrafter().propose([asked])[0].token_ids


def reference_law(table, acceptance):
    """Follow blocks: keep a draft or emit the recovered row; also the mean number judged."""
    law, outcomes, num_judged = build_law(acceptance), {}, [0.0]
    vocab_size = len(table[()])

    def begin(context, probability):
        left = len(PROMPT) + MAX_TOKENS - len(context)
        if left == 0:
            outcome = context[len(PROMPT) :]
            outcomes[outcome] = outcomes.get(outcome, 0) + probability
        elif probability > 0:
            judge(context, drafted(context, min(K, left - 1)), probability)

    def judge(context, draft, probability):
        target = table[context[-1:]]
        if not draft:
            for token in range(vocab_size):
                begin((*context, token), probability * target[token])
            return
        point = np.zeros(vocab_size)
        point[draft[0]] = 1.0
        rows = RowPair(target[None], point[None])
        kept = float(law.accept_probs(rows)[0][draft[0]])
        recovered = law.recovered_probs(rows)[0]
        num_judged[0] += probability
        judge((*context, draft[0]), draft[1:], probability * kept)
        for token in range(vocab_size):
            begin((*context, token), probability * (1 - kept) * recovered[token])

    for token in range(vocab_size):
        begin((*PROMPT, token), table[PROMPT[-1:]][token])
    return outcomes, num_judged[0]


@pytest.mark.parametrize("acceptance", JUDGED, ids=label)
def test_t02_lossy_laws_with_point_mass_drafts_equal_the_slow_reference(acceptance):
    table = random_table(2, 1, seed=3)
    expected, num_judged = reference_law(table, acceptance)
    assert num_judged > 0.5
    law = served_law(table, None, acceptance, drafter="ngram", k=K, max_tokens=MAX_TOKENS)
    assert distance(law, expected) < 1e-12
    assert distance(law, target_law(table, MAX_TOKENS)) > 1e-3
