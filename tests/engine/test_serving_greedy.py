"""Temperature 0: plain decoding's ids, whoever drafts and however well, at every depth and length.

A good drafter is always right, an adversarial one never, a bad one now and then.
"""

import numpy as np
import pytest
from tests.support.serving_cases import DRAFTERS, LAWS, SERVED, case_label, serve
from tests.support.tabular_engine import ask, run_all, token_ids

from leeway.backends.tabular import random_table

TABLE = random_table(4, 2, seed=81)
DRAFT_TABLES = {
    "good": TABLE,
    "bad": random_table(4, 2, seed=82),
    "adversarial": {context: np.eye(4)[int(np.argmin(row))] for context, row in TABLE.items()},
}
PROMPT = (0, 1, 2, 3, 1, 0, 2, 2, 3, 0, 1, 2)
NUM_TOKENS = 21


def plain(prompt, num_tokens):
    """Follow the table by hand."""
    text = list(prompt)
    while len(text) < len(prompt) + num_tokens:
        text.append(int(TABLE[tuple(text[-2:])].argmax()))
    return tuple(text[len(prompt) :])


def answers_of(law, drafter, draft_table, depth, **options):
    """Serve prompts that end at every place of a block, twice, so that the second finds them."""
    engine = serve(
        law, drafter, TABLE, draft_table, order=2, num_speculative_tokens=depth, **options
    )
    tallies = []
    for round_ in range(2):
        asked = [
            ask(PROMPT[:length], f"{round_}-{length}", max_tokens=NUM_TOKENS, temperature=0.0)
            for length in range(1, len(PROMPT) + 1)
        ]
        for name, deltas in run_all(engine, *asked).items():
            length = int(name.partition("-")[2])
            assert token_ids(deltas) == plain(PROMPT[:length], NUM_TOKENS), name
            tallies.append(deltas[-1].receipt.tally)
    assert sum(tally.num_cached_tokens for tally in tallies) > 0
    drafted = sum(tally.num_draft_tokens for tally in tallies)
    return drafted, sum(tally.num_accepted_tokens for tally in tallies)


@pytest.mark.parametrize("quality", DRAFT_TABLES)
@pytest.mark.parametrize("law", LAWS, ids=case_label)
def test_t01_good_bad_and_adversarial_drafts_change_no_id(law, quality):
    for depth in range(1, 6):
        drafted, accepted = answers_of(law, "draft_model", DRAFT_TABLES[quality], depth)
        assert drafted > 0
        if quality != "bad":
            assert accepted == (drafted if quality == "good" else 0)


@pytest.mark.parametrize(("law", "drafter"), SERVED, ids=case_label)
def test_t01_every_drafter_at_every_depth_gives_plain_ids(law, drafter):
    for depth in range(1, 6):
        drafted, _ = answers_of(law, drafter, DRAFT_TABLES["bad"], depth)
        assert (drafted > 0) == (drafter != "none")


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_t01_lack_of_room_changes_no_id(drafter):
    for law in LAWS[:3]:
        answers_of(law, drafter, DRAFT_TABLES["bad"], 3, capacity_tokens=80)
