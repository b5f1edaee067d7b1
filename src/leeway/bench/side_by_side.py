"""One prompt under several laws, in one process, interleaved, with the same seeds.

The seed is the unit of replication: an arm's speed has one value a seed, and its ratio to the first
arm is taken seed by seed. Every round runs each arm once, beginning with another one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from leeway.bench.samples import Samples
from leeway.core.receipt import Receipt, Tally
from leeway.core.types import Acceptance, OutputDelta, SamplingParams
from leeway.llm import LLM

DEFINITIONS = {
    "tokens/s": "output tokens behind the first / time of their engine steps; the prompt's own "
    "steps left out",
    "x plain": "tokens/s / tokens/s of plain decoding with the same seed",
    "tokens per verify step": "output tokens / verify steps; 1 without speculation",
    "kept_draft_rate": "draft tokens kept / positions decided",
    "loss": "total variation between the emitted row and the target's row, mean over the "
    "positions decided; 0 for an exact law",
}
_WARM_UP_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Arm:
    """A way to decode; `num_speculative_tokens` 0 is plain decoding, None the engine's own."""

    name: str
    acceptance: Acceptance
    num_speculative_tokens: int | None = None


@dataclass(slots=True)
class ArmResult:
    """What one arm did over all seeds.

    `tokens_per_s` and `plain_ratio` are over seeds; `tally` adds them up; `deltas` are the first
    seed's, for showing its text.
    """

    arm: Arm
    tally: Tally = field(default_factory=Tally)
    speeds: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    deltas: list[OutputDelta] = field(default_factory=list)
    receipt: Receipt | None = None

    @property
    def tokens_per_s(self) -> Samples:
        """Decoding speed by seed."""
        return Samples.of(self.speeds)

    @property
    def plain_ratio(self) -> Samples:
        """Speed over the first arm's, seed by seed."""
        return Samples.of(self.ratios)

    @property
    def text(self) -> str:
        """The first seed's answer."""
        return "".join(delta.text for delta in self.deltas)


def compare(
    llm: LLM,
    prompt_token_ids: Sequence[int],
    arms: Sequence[Arm],
    sampling: SamplingParams,
    *,
    max_rounds: int,
    time_limit_s: float,
    on_round: Callable[[int], None] = lambda _: None,
) -> list[ArmResult]:
    """Return one result an arm, over seeds 1, 2 ...

    Args:
        llm: runs every arm.
        prompt_token_ids: the same for all.
        arms: the first is what the others are compared with.
        sampling: `seed` is replaced.
        max_rounds: most seeds.
        time_limit_s: no round begins later than this, but the first two always run.
        on_round: told each seed as its round begins.
    """
    started = time.perf_counter()
    warm_up = replace(sampling, seed=0, max_tokens=_WARM_UP_TOKENS)
    for arm in arms:
        _decode(llm, prompt_token_ids, arm, warm_up)
    results = [ArmResult(arm) for arm in arms]
    for seed in range(1, max_rounds + 1):
        if seed > 2 and time.perf_counter() - started > time_limit_s:
            break
        on_round(seed)
        shift = seed % len(results)
        for result in (*results[shift:], *results[:shift]):
            deltas = _decode(llm, prompt_token_ids, result.arm, replace(sampling, seed=seed))
            _add(result, deltas)
        for result in results:
            result.ratios.append(result.speeds[-1] / results[0].speeds[-1])
    return results


def _decode(
    llm: LLM, prompt_token_ids: Sequence[int], arm: Arm, sampling: SamplingParams
) -> list[OutputDelta]:
    return list(llm.stream(prompt_token_ids, sampling, arm.acceptance, arm.num_speculative_tokens))


def _add(result: ArmResult, deltas: list[OutputDelta]) -> None:
    receipt = deltas[-1].receipt
    assert receipt is not None
    tally = receipt.tally
    result.tally.add(tally)
    result.speeds.append((tally.num_output_tokens - 1) / tally.decode_s if tally.decode_s else 0.0)
    if not result.deltas:
        result.deltas, result.receipt = deltas, receipt
