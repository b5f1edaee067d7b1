"""The self-check: does a law, judged as vLLM will have it judged, emit its closed form here?

In: a law, a device. Out: nothing, or an error before anything is served. Draws blocks of two tokens
on a small vocabulary, from the rows and through the very function that judges, and compares

- the first emitted token with the law's emitted row,
- how many tokens were accepted with the law's acceptance rates (not under block verification,
  where they depend on the whole block),

the closed forms computed apart, in double precision. A chi-square test each, at a false-alarm rate
below 1e-9; coins are keyed, so that a machine on which it passes once always passes. It
sees a total variation of about 0.02 or more. At temperature 0 it compares token for token.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from leeway.acceptance.base import Law, RowPair
from leeway.core.errors import BackendError
from leeway.core.types import FloatArray, IntArray
from leeway.vllm.batch import Group, Plan
from leeway.vllm.judge import Step, judge_step

NUM_BLOCKS = 20_000
FALSE_ALARM_SIGMAS = 6.0
"""A normal variable exceeds it with probability 1e-9."""
_VOCAB_SIZE = 8
_SEED = 20_240_917
_TEMPERATURE = 0.7


@dataclass(frozen=True, slots=True)
class _Case:
    """Rows of two positions, [2, vocab_size] each, and drafts, [NUM_BLOCKS, 2]."""

    target_probs: FloatArray
    draft_probs: FloatArray
    drafts: IntArray
    has_rows: bool


def check_law(law: Law, device: torch.device, *, has_rows: bool) -> None:
    """Compare what a law emits here with its closed form.

    Args:
        law: as it will judge.
        device: where it will judge.
        has_rows: whether drafts come with the rows they were drawn from.

    Raises:
        BackendError: they differ; the server must not start.
    """
    case = _case(has_rows)
    tokens = _emit(law, case, device, is_greedy=False)
    for name, found, expected in _compare(law, case, tokens):
        problem = _differs(found, expected)
        if problem is not None:
            raise BackendError(
                f"law {law.info.name!r} does not emit its closed form on {device}: {name} "
                f"{problem}. Nothing is served; please report this with the versions of leeway, "
                "vLLM and torch"
            )
    if not law.reads_raw_rows:
        _check_greedy(law, case, device)


def _check_greedy(law: Law, case: _Case, device: torch.device) -> None:
    best = case.target_probs.argmax(axis=-1)
    tokens = _emit(law, case, device, is_greedy=True)
    num_accepted = (tokens >= 0).sum(axis=1) - 1
    matched = np.cumprod(case.drafts == best, axis=1).sum(axis=1)
    is_right = (num_accepted == matched) & (tokens[:, 0] == best[0])
    if not bool(is_right.all()):
        raise BackendError(
            f"law {law.info.name!r} does not keep to the most likely token at temperature 0 on "
            f"{device}. Nothing is served; please report this with the versions of leeway, vLLM "
            "and torch"
        )


def _case(has_rows: bool) -> _Case:
    generator = np.random.default_rng(_SEED)
    target = generator.dirichlet(np.full(_VOCAB_SIZE, 0.8), size=2)
    target[:, -1] = 0.0
    target /= target.sum(axis=-1, keepdims=True)
    if has_rows:
        draft = generator.dirichlet(np.full(_VOCAB_SIZE, 0.8), size=2)
    else:
        second = np.argsort(target, axis=-1)[:, -2]
        draft = np.eye(_VOCAB_SIZE)[second]
    drafts = np.stack(
        [generator.choice(_VOCAB_SIZE, size=NUM_BLOCKS, p=row) for row in draft], axis=1
    )
    return _Case(target, draft, drafts, has_rows)


def _emit(law: Law, case: _Case, device: torch.device, *, is_greedy: bool) -> IntArray:
    """Return what the judging function emits: [NUM_BLOCKS, 3], -1 behind the last token."""
    with np.errstate(divide="ignore"):
        logits = np.tile(np.log(case.target_probs), (NUM_BLOCKS, 1))
    rows = torch.from_numpy(logits).to(device, torch.float32)
    draft = np.tile(case.draft_probs, (NUM_BLOCKS, 1))
    step = Step(
        draft_token_ids=torch.from_numpy(case.drafts.reshape(-1)).to(device, torch.int32),
        num_draft_tokens=np.full(NUM_BLOCKS, 2, dtype=np.int64),
        max_draft_len=2,
        target_logits=rows,
        draft_probs=torch.from_numpy(draft).to(device, torch.float32) if case.has_rows else None,
        raw_logits=rows / _TEMPERATURE if law.reads_raw_rows else None,
        bonus_token_ids=torch.zeros(NUM_BLOCKS, dtype=torch.int64, device=device),
    )
    everyone = np.ones(NUM_BLOCKS, dtype=np.bool_)
    plan = Plan(
        groups=(Group(law, is_greedy, everyone),),
        keys=np.arange(NUM_BLOCKS, dtype=np.int64),
        steps=np.zeros(NUM_BLOCKS, dtype=np.int64),
    )
    coins = plan.throw(2, everyone)
    tokens: IntArray = judge_step(step, plan, coins, None).cpu().numpy()
    return tokens


def _compare(law: Law, case: _Case, tokens: IntArray) -> list[tuple[str, FloatArray, FloatArray]]:
    """Return what is compared: name, counts found, counts expected."""
    raw = None
    if law.reads_raw_rows:
        raw = case.target_probs ** (1 / _TEMPERATURE)
        raw /= raw.sum(axis=-1, keepdims=True)
    rows = RowPair(case.target_probs, case.draft_probs, raw)
    emitted = np.asarray(law.emitted_probs(rows))[0]
    first = np.bincount(tokens[:, 0], minlength=_VOCAB_SIZE).astype(np.float64)
    compared: list[tuple[str, FloatArray, FloatArray]] = [
        ("its first token", first, NUM_BLOCKS * emitted)
    ]
    if law.verifier != "block":
        one, two = (float(rate) for rate in law.acceptance_rate(rows))
        lengths = np.array([1 - one, one * (1 - two), one * two])
        found = np.bincount((tokens >= 0).sum(axis=1) - 1, minlength=3).astype(np.float64)
        compared.append(("the number of accepted tokens", found, NUM_BLOCKS * lengths))
    return compared


def _differs(found: FloatArray, expected: FloatArray) -> str | None:
    """Return how counts differ beyond chance, or None.

    Cells that expect fewer than 5 are judged as one; where nothing can come, nothing may.
    """
    impossible = expected <= 1e-9 * expected.sum()
    if bool((found[impossible] > 0).any()):
        return f"came {int(found[impossible].sum())} times where it has no probability"
    rare = ~impossible & (expected < 5)
    cells = [(found[i], expected[i]) for i in np.flatnonzero(~impossible & ~rare)]
    if bool(rare.any()):
        cells.append((found[rare].sum(), expected[rare].sum()))
    cells = [(count, mean) for count, mean in cells if mean > 0]
    if len(cells) < 2:
        return None
    statistic = sum((count - mean) ** 2 / max(mean, 1.0) for count, mean in cells)
    limit = chi_square_limit(len(cells) - 1)
    if statistic <= limit:
        return None
    return f"differs (chi-square {statistic:.1f}, allowed {limit:.1f}, {len(cells) - 1} degrees)"


def chi_square_limit(degrees: int) -> float:
    """Return what chi-square exceeds with probability below 1e-9 (Wilson and Hilferty, 1931)."""
    spread = 2 / (9 * degrees)
    return degrees * (1 - spread + FALSE_ALARM_SIGMAS * math.sqrt(spread)) ** 3
