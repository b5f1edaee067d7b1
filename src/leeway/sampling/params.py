"""Checks of what a user may ask for; the one place that knows the ranges.

Knows nothing of laws or models beyond the vocabulary's size.
"""

from __future__ import annotations

import math

from leeway.core.errors import RequestError
from leeway.core.rng import MAX_SEED
from leeway.core.types import SamplingParams

MAX_LOGIT_BIAS = 100.0
MIN_TEMPERATURE = 1e-5  # below, logits divided by it no longer fit a 32-bit float

RANGES: dict[str, tuple[float, float, str]] = {
    "temperature": (0.0, 100.0, "0 (greedy), or 0.00001 to 100"),
    "top_p": (0.0, 1.0, "above 0 to 1 (1 is off)"),
    "min_p": (0.0, 1.0, "0 (off) to 1"),
    "presence_penalty": (-2.0, 2.0, "-2 to 2 (0 is off)"),
    "frequency_penalty": (-2.0, 2.0, "-2 to 2 (0 is off)"),
    "repetition_penalty": (0.01, 100.0, "0.01 to 100 (1 is off)"),
}


def check_sampling(params: SamplingParams, vocab_size: int) -> None:
    """Raise RequestError naming the first field that is out of range."""
    for name, (low, high, allowed) in RANGES.items():
        value = getattr(params, name)
        if not (math.isfinite(value) and low <= value <= high):
            _refuse(name, value, allowed)
    if params.top_p == 0:
        _refuse("top_p", params.top_p, RANGES["top_p"][2])
    if 0 < params.temperature < MIN_TEMPERATURE:
        _refuse("temperature", params.temperature, RANGES["temperature"][2])
    if params.top_k < 0:
        _refuse("top_k", params.top_k, "0 (off) or more")
    if params.max_tokens < 0:
        _refuse("max_tokens", params.max_tokens, "0 (only read the prompt) or more")
    if not 0 <= params.min_tokens <= params.max_tokens:
        _refuse("min_tokens", params.min_tokens, f"0 (off) to max_tokens ({params.max_tokens})")
    if params.seed is not None and not 0 <= params.seed <= MAX_SEED:
        _refuse("seed", params.seed, "0 to 2**64 - 1, or none")
    if any(not text for text in params.stop):
        _refuse("stop", "''", "non-empty strings")
    for token_id in (*params.stop_token_ids, *params.logit_bias):
        if not 0 <= token_id < vocab_size:
            field = "logit_bias" if token_id in params.logit_bias else "stop_token_ids"
            _refuse(field, token_id, f"token ids from 0 to {vocab_size - 1}")
    for bias in params.logit_bias.values():
        if not (math.isfinite(bias) and abs(bias) <= MAX_LOGIT_BIAS):
            _refuse("logit_bias", bias, f"{-MAX_LOGIT_BIAS:g} to {MAX_LOGIT_BIAS:g}")


def _refuse(name: str, value: object, allowed: str) -> None:
    raise RequestError(f"{name} is {value}; allowed: {allowed}", param=name)
