"""Laws to try and rows to try them on: every law x off-set x verifier, at working settings."""

from __future__ import annotations

import itertools

import numpy as np

from leeway.acceptance.base import RowPair
from leeway.acceptance.registry import build_law
from leeway.core.types import Acceptance

OFF_SETS = ("redraw", "pi", "coin", "argmax")
VERIFIERS = ("token", "block")

EXACT = [Acceptance(name) for name in ("rejection", "block", "sample_match", "greedy_match")]

_SETS = [
    ("typical", {"delta": 0.7, "eps": 0.6}),
    ("typical", {"delta": 0.5}),
    ("tokenv1", {"alpha": 0.2}),
    ("tokenv2", {"alpha": 0.15}),
    ("tokenv3", {"alpha": 0.5}),
    ("relaxed_top_k", {"rank": 2, "delta": 0.3}),
    ("relaxed_top_k", {"rank": 1, "ratio": 0.5}),
    ("relaxed_top_k", {"rank": 3, "log_gap": 0.9}),
    ("threshold", {"floor": 0.3}),
]
SET_LAWS = [
    Acceptance(name, {**options, "off_set": off_set})
    for (name, options), off_set in itertools.product(_SETS, OFF_SETS)
] + [Acceptance("threshold", {"floor": 0.4, "leniency": 0.6})]

OTHER_LAWS = [
    Acceptance("opt", {"alpha": 0.3}),
    Acceptance("opt", {"alpha": -0.4}),
    Acceptance("diff", {"alpha": 0.05}),
    Acceptance("lenient", {"leniency": 0.5}),
    Acceptance("clip", {"c1": 1.4}),
    Acceptance("tv_budget", {"budget": 0.1}),
    Acceptance("ensemble", {"weight": 0.7}),
]


def under(acceptance, verifier):
    """Return the same law under a verifier."""
    return Acceptance(acceptance.law, {**acceptance.options, "verifier": verifier})


LOSSY = [
    under(acceptance, verifier)
    for acceptance, verifier in itertools.product(SET_LAWS + OTHER_LAWS, VERIFIERS)
]
ALL = EXACT + LOSSY

# Laws that accept at least min(1, p/q) and draw (p - q)+, or clip between p and q: A = 1 - D + TV.
ON_FRONTIER = frozenset({"rejection", "block", "opt", "diff", "lenient", "clip", "tv_budget"}) | {
    "ensemble"
}


def is_on_frontier(law):
    """Whether the law claims A = 1 - D + TV(emitted, target) for all rows."""
    return law.info.name in ON_FRONTIER or law.options.get("off_set") == "coin"


def label(acceptance):
    """Name a case."""
    options = "-".join(str(value) for value in acceptance.options.values())
    return f"{acceptance.law}-{options}" if options else acceptance.law


def build(name, **options):
    """Return a law by name and options."""
    return build_law(Acceptance(name, options))


EDGE_PAIRS = {
    "equal": ([0.5, 0.3, 0.2], [0.5, 0.3, 0.2]),
    "plain": ([0.5, 0.3, 0.2], [0.2, 0.3, 0.5]),
    "one-hot target": ([0.0, 1.0, 0.0], [0.2, 0.3, 0.5]),
    "one-hot draft": ([0.5, 0.3, 0.2], [0.0, 0.0, 1.0]),
    "one-hot both, same": ([0.0, 1.0, 0.0], [0.0, 1.0, 0.0]),
    "one-hot both, other": ([0.0, 1.0, 0.0], [0.0, 0.0, 1.0]),
    "disjoint": ([0.6, 0.4, 0.0, 0.0], [0.0, 0.0, 0.7, 0.3]),
    "zeros in target": ([0.7, 0.3, 0.0, 0.0], [0.1, 0.5, 0.25, 0.15]),
    "zeros in draft": ([0.4, 0.3, 0.2, 0.1], [0.0, 0.9, 0.1, 0.0]),
    "zeros in both": ([0.6, 0.0, 0.4, 0.0], [0.0, 0.5, 0.5, 0.0]),
    "ties": ([0.25, 0.25, 0.25, 0.25], [0.1, 0.2, 0.3, 0.4]),
    "tied peak": ([0.1, 0.4, 0.4, 0.1], [0.4, 0.3, 0.2, 0.1]),
    "one token": ([1.0], [1.0]),
    "tiny": ([1 - 2e-9, 1e-9, 1e-9], [1e-9, 1 - 2e-9, 1e-9]),
}


def edge_pairs():
    """Return the edge cases as row pairs."""
    return {name: RowPair(np.array(p), np.array(q)) for name, (p, q) in EDGE_PAIRS.items()}


def random_pairs(num_pairs, seed=0):
    """Return random row pairs of 2 to 4 tokens, sharp and flat ones."""
    generator = np.random.default_rng(seed)
    pairs = []
    for _ in range(num_pairs):
        vocab_size = int(generator.integers(2, 5))
        sharpness = generator.choice([0.3, 1.0, 3.0], size=2)
        rows = [generator.dirichlet(np.full(vocab_size, value)) for value in sharpness]
        pairs.append(RowPair(*rows))
    return pairs


def long_rows(dtype=np.float64, seed=0, num_columns=5000):
    """Return three row pairs as long as those of real vocabularies, alike and unlike."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(0, 2, (2, 3, num_columns))
    logits[0, :, :12] += np.linspace(10, 3, 12)
    logits[1] = logits[0] + 0.6 * logits[1]
    probs = np.exp(logits)
    probs /= probs.sum(axis=-1, keepdims=True)
    return RowPair(*probs.astype(dtype))
