"""Model Runner V2, its kernels interpreted on a CPU: ids, closed forms, receipts.

False alarms: a chi-square limit is exceeded by chance less than once in a billion; seeds are fixed.
Interpreted kernels are slow, so there are fewer draws than from Model Runner V1; that of top-k
cannot be interpreted, so there is none.
"""

import numpy as np
from tests.vllm.calls import EXACT, assert_follows, greedy_call, sampled_call

NUM_TOKENS = 12
NUM_REQUESTS = 48
SMALL = {"kind": "V2", "max_num_seqs": 48, "max_num_batched_tokens": 512}
LAWS = [
    {"law": "rejection"},
    {"law": "block"},
    {"law": "typical", "delta": 0.4},
    {"law": "tokenv3", "alpha": 0.6, "off_set": "coin"},
    {"law": "opt", "alpha": 0.5},
]


def test_greedy_ids_are_those_of_plain_vllm(run):
    drafter = "draft_model probabilistic"
    (found,) = run([greedy_call(NUM_TOKENS)], drafter=drafter, law=EXACT, **SMALL)
    (plain,) = run([greedy_call(NUM_TOKENS)])
    assert found["token_ids"] == plain["token_ids"]
    ((label, counts),) = found["counters"].items()
    assert label == "rejection/exact_distribution/greedy"
    assert counts["accepted"] > 0


def test_judged_positions_emit_their_law_s_closed_form(run):
    calls = [sampled_call(NUM_REQUESTS, NUM_TOKENS, top_k=0, **law) for law in LAWS]
    drafter = "draft_model probabilistic"
    answers = run(calls, drafter=drafter, law=EXACT, watch=True, **SMALL)
    for law, answer in zip(LAWS, answers, strict=True):
        found, expected = (np.array(answer["emitted"][name]) for name in ("found", "expected"))
        assert answer["emitted"]["impossible"] == 0, law
        assert found.sum() >= NUM_REQUESTS * NUM_TOKENS / 3, law
        assert_follows(found, expected, law)
        ((label, counts),) = answer["counters"].items()
        assert label.startswith(law["law"] + "/")
        assert label.endswith("/rows")
        is_exact = law["law"] in {"rejection", "block"}
        assert (counts["loss_total_variation"] > 0) is not is_exact, law
