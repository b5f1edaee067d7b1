"""Calls of an engine on the tiny models, and what their answers are held against."""

import itertools

import numpy as np

from leeway.vllm.self_check import chi_square_limit

PROMPTS = [
    [10, 45, 45, 12, 45, 45, 12, 45],
    [30, 31, 32, 33, 30, 31, 32],
    [77, 5, 77, 5, 77],
    [200, 150, 99, 200, 150],
]
NUM_TOKENS = 48
NUM_REQUESTS = 640
TOP_K = 5
TEMPERATURE = 0.9
EXACT = {"law": "rejection", "allow_laws": "all"}


def greedy_call(num_tokens=NUM_TOKENS, **extra):
    """Return a call of every prompt at temperature 0; `extra` is a law and its knobs."""
    params = {"temperature": 0.0, "max_tokens": num_tokens, "ignore_eos": True}
    params |= {"extra_args": arguments(extra)} if extra else {}
    return {"prompts": PROMPTS, "params": [params] * len(PROMPTS)}


def sampled_call(num_requests=NUM_REQUESTS, num_tokens=NUM_TOKENS, top_k=TOP_K, **law):
    """Return a call of as many seeded requests under a law."""
    params = [
        {
            "temperature": TEMPERATURE,
            "top_k": top_k,
            "max_tokens": num_tokens,
            "ignore_eos": True,
            "seed": seed,
            "extra_args": arguments(law),
        }
        for seed in range(num_requests)
    ]
    prompts = [PROMPTS[seed % len(PROMPTS)] for seed in range(num_requests)]
    return {"prompts": prompts, "params": params}


def arguments(law):
    """Return a request's extra arguments for a law."""
    return {f"leeway_{name}": value for name, value in law.items()}


def against_plain(run, token_ids):
    """Return tokens by rank in plain vLLM's own rows, and how many were to be expected."""
    prompts = [one for one, _ in zip(itertools.cycle(PROMPTS), token_ids, strict=False)]
    texts = [prompt + ids for prompt, ids in zip(prompts, token_ids, strict=True)]
    params = {"temperature": 0.0, "max_tokens": 1, "prompt_logprobs": TOP_K + 2}
    (plain,) = run([{"prompts": texts, "params": [params] * len(texts)}])
    found, expected = np.zeros(TOP_K), np.zeros(TOP_K)
    for prompt, ids, rows in zip(prompts, token_ids, plain["prompt_logprobs"], strict=True):
        for token, row in zip(ids, rows[len(prompt) :], strict=True):
            best = sorted(row.items(), key=lambda item: -item[1])
            own = next(rank for rank, (name, _) in enumerate(best) if int(name) == token)
            last = best[TOP_K - 1][1]
            # A token may stand a rounding error behind the last that top-k lets through.
            assert own < TOP_K or last - row[str(token)] < 1e-3, "outside the target's top-k"
            found[min(own, TOP_K - 1)] += 1
            weights = np.exp(np.array([value for _, value in best[:TOP_K]]) / TEMPERATURE)
            expected += weights / weights.sum()
    return found, expected


def assert_follows(found, expected, law=""):
    """Assert that counts follow their expectations; rare cells are judged as one."""
    rare = expected < 5
    cells = [(found[i], expected[i]) for i in np.flatnonzero(~rare)]
    if expected[rare].sum() > 1:
        cells.append((found[rare].sum(), expected[rare].sum()))
    statistic = sum((count - mean) ** 2 / mean for count, mean in cells)
    limit = chi_square_limit(len(cells) - 1)
    assert statistic <= limit, f"{law} chi-square {statistic:.1f} above {limit:.1f}"
