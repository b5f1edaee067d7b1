"""Frequencies, greedy ids and receipts from whole engines, against plain vLLM and closed forms.

False alarms: each chi-square limit is exceeded by chance once in a billion; seeds are fixed.
"""

import math

import numpy as np
import pytest

from leeway.vllm.self_check import chi_square_limit

PROMPT = [10, 45, 45, 12, 45, 45, 12, 45]
PROMPTS = [PROMPT, [30, 31, 32, 33, 30, 31, 32], [77, 5, 77, 5, 77], [200, 150, 99, 200, 150]]
NUM_DRAWS = 20_000
TOP_K = 5
SAMPLED = {"temperature": 0.9, "top_k": TOP_K, "max_tokens": 5, "ignore_eos": True}
DRAFTERS = ["ngram", "greedy", "probabilistic"]
EXACT = {"law": "rejection", "allow_laws": "all"}


def greedy_call(num_tokens=48):
    params = {"temperature": 0.0, "max_tokens": num_tokens, "ignore_eos": True}
    return {"prompts": PROMPTS, "params": [params] * len(PROMPTS)}


def sampled_call(**extra):
    params = [
        {**SAMPLED, "seed": seed, **({"extra_args": extra} if extra else {})}
        for seed in range(NUM_DRAWS)
    ]
    return {"prompts": [PROMPT] * NUM_DRAWS, "params": params}


def row_call(prompts):
    params = {"temperature": 0.0, "max_tokens": 1, "logprobs": -1}
    return {"prompts": prompts, "params": [params] * len(prompts)}


def sampled_row(logprobs):
    """Return the row that the sampler of `SAMPLED` draws from, by token."""
    best = sorted(logprobs.items(), key=lambda item: -item[1])[:TOP_K]
    weights = np.exp(np.array([value for _, value in best]) / SAMPLED["temperature"])
    return dict(zip((int(token) for token, _ in best), weights / weights.sum(), strict=True))


@pytest.fixture(scope="module")
def target_rows(run):
    """The target's rows behind the prompt and behind the prompt and one token more, plain vLLM."""
    (first,) = run([row_call([PROMPT])])
    row = sampled_row(first["logprobs"][0][0])
    (behind,) = run([row_call([[*PROMPT, token] for token in row])])
    rows = [sampled_row(one[0]) for one in behind["logprobs"]]
    return row, dict(zip(row, rows, strict=True))


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_greedy_ids_are_those_of_plain_vllm(run, drafter):
    (plain,) = run([greedy_call()])
    exact, typical = run(
        [greedy_call(), {**greedy_call(), "params": [typical_params()] * len(PROMPTS)}],
        drafter=drafter,
        law=EXACT,
    )
    assert exact["token_ids"] == plain["token_ids"]
    assert typical["token_ids"] == plain["token_ids"]
    (counts,) = exact["counters"].values()
    assert counts["accepted"] > 0


def typical_params():
    extra = {"leeway_law": "typical", "leeway_delta": 0.2}
    return {"temperature": 0.0, "max_tokens": 48, "ignore_eos": True, "extra_args": extra}


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("law", ["rejection", "block"])
def test_under_exact_laws_pairs_of_tokens_follow_the_target(run, target_rows, drafter, law):
    (answer,) = run([sampled_call(leeway_law=law)], drafter=drafter, law=EXACT)
    row, behind = target_rows
    expected = {(one, two): row[one] * share for one in row for two, share in behind[one].items()}
    assert_follows(answer["token_ids"], expected)
    (label,) = answer["counters"]
    kind = "rows" if drafter == "probabilistic" else "point_mass"
    assert label == f"{law}/exact_distribution/{kind}"


LOSSY = [
    {"law": "typical", "delta": 0.4},
    {"law": "typical", "delta": 0.4, "off_set": "coin"},
    {"law": "tokenv3", "alpha": 0.6},
    {"law": "lenient", "leniency": 0.5},
    {"law": "clip", "c1": 1.5},
    {"law": "tv_budget", "budget": 0.1},
    {"law": "opt", "alpha": 0.5},
]


@pytest.mark.parametrize("drafter", ["ngram", "probabilistic"])
def test_lossy_laws_emit_their_closed_forms(run, drafter):
    laws = [law for law in LOSSY if drafter == "probabilistic" or law["law"] != "opt"]
    calls = [sampled_call(**{f"leeway_{key}": law[key] for key in law}) for law in laws]
    for law, answer in zip(laws, run(calls, drafter=drafter, law=EXACT, watch=True), strict=True):
        first = {name: np.array(values) for name, values in answer["first_tokens"].items()}
        assert first["count"].sum() > NUM_DRAWS / 10, law
        impossible = first["mean"] < 1e-9
        assert not first["count"][impossible].any(), law
        spread = np.sqrt(np.maximum(first["variance"], 1.0))
        assert np.abs(first["count"] - first["mean"]).max() < 0.5 + 6.5 * spread.max(), law
        z = np.abs(first["count"] - first["mean"]) / spread
        assert z[first["mean"] >= 5].max() < 6.5, law  # of 265 tokens by chance once in 50 million
        (counts,) = answer["counters"].values()
        assert counts["loss_total_variation"] > 0, law


def test_a_lossy_law_is_seen_to_leave_the_target(run, target_rows):
    (answer,) = run(
        [sampled_call(leeway_law="ensemble", leeway_weight=0.2)],
        drafter="probabilistic",
        law=EXACT,
    )
    row, behind = target_rows
    expected = {(one, two): row[one] * share for one in row for two, share in behind[one].items()}
    with pytest.raises(AssertionError, match="chi-square"):
        assert_follows(answer["token_ids"], expected)


def assert_follows(pairs, expected):
    """Assert that first pairs of tokens follow these; rare ones are judged as one."""
    counts = {}
    for one, two, *_ in pairs:
        counts[one, two] = counts.get((one, two), 0) + 1
    total = len(pairs)
    assert math.isclose(sum(expected.values()), 1, abs_tol=1e-6)
    stray = sum(count for pair, count in counts.items() if pair not in expected)
    assert stray == 0, f"chi-square: {stray} pairs that the target cannot give"
    cells = [(counts.get(pair, 0), total * share) for pair, share in expected.items()]
    common = [cell for cell in cells if cell[1] >= 5]
    rare = [sum(column) for column in zip(*[one for one in cells if one[1] < 5], strict=True)]
    if rare and rare[1] > 0:
        common.append(tuple(rare))
    statistic = sum((count - mean) ** 2 / max(mean, 1.0) for count, mean in common)
    limit = chi_square_limit(len(common) - 1)
    assert statistic <= limit, f"chi-square {statistic:.1f} above {limit:.1f}"


@pytest.mark.parametrize("law", [{}, {"leeway_law": "typical", "leeway_delta": 0.2}], ids=str)
def test_two_ranks_decide_as_one(run, law):
    params = [
        {"temperature": 0.9, "max_tokens": 24, "ignore_eos": True, "seed": seed, "extra_args": law}
        for seed in range(8)
    ]
    call = {"prompts": [PROMPTS[seed % len(PROMPTS)] for seed in range(8)], "params": params}
    one = run([call], drafter="ngram", law=EXACT)
    two = run([call], drafter="ngram", law=EXACT, tensor_parallel_size=2)
    assert two[0]["token_ids"] == one[0]["token_ids"]
