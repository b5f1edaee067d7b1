"""How long to draft on this machine: plain decoding, each fixed length and adaptive, measured.

One engine, one process; every round runs every arm on every prompt with the round's seed, request
by request, each prompt beginning with another arm. The seed is the unit of replication: an arm has
one speed a seed, and its ratio to plain decoding is taken seed by seed. Before the rounds, one more
round over the fixed lengths measures what a draft token costs; adaptive then decides by that
number. In: a ready engine and
prompts. Out: measured arms and the winner, if there is one. Writes nothing, prints nothing.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from leeway.backends.openvino.backend import OpenVINOBackend
from leeway.bench.intervals import CONFIDENCE, Estimate, t_quantile
from leeway.core.errors import RequestError
from leeway.core.receipt import Receipt, Tally
from leeway.core.types import SamplingParams
from leeway.engine.self_check import may_draft, row_shape_in_use
from leeway.llm import LLM
from leeway.scheduler.draft_length import DraftLength

DEFINITIONS = {
    "tokens/s": "output tokens behind the first / time of their engine steps, over all prompts; "
    "median over seeds; the prompt's own steps left out",
    "x plain": "tokens/s / tokens/s of plain decoding with the same seed: geometric mean over "
    "seeds, with an interval by Student's t on the log scale, all arms' intervals together at 95 %",
    "plain": "decoding without drafts, in the row shape that is quickest for it (fast)",
    "drafted": "draft tokens / verify steps",
    "draft_cost": "what one draft token adds to a verify step, in steps without drafts: slope over "
    "intercept of time a step against draft tokens a step, over the fixed lengths, in a round of "
    "its own",
}
_WARM_UP_TOKENS = 16
_CALIBRATION_SEED = 0
_ROUNDING = 1e-9
_LEAST_SPREAD = 0.1  # draft tokens a step; closer lengths say little of the slope


@dataclass(frozen=True, slots=True)
class LengthArm:
    """One way to draft: at most `num_speculative_tokens`, always or adaptively; 0 is plain."""

    num_speculative_tokens: int
    is_adaptive: bool = False

    @property
    def name(self) -> str:
        """What tables call it."""
        if self.num_speculative_tokens == 0:
            return "plain"
        return "adaptive" if self.is_adaptive else f"depth {self.num_speculative_tokens}"


@dataclass(slots=True)
class LengthResult:
    """What one arm did.

    Attributes:
        arm: the way to draft.
        speeds: tokens/s, one a seed.
        tally: of all its requests.
        receipt: its last request's, which names the law that judged.
        ratio: speed over that of plain decoding.
    """

    arm: LengthArm
    speeds: list[float] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    receipt: Receipt | None = None
    ratio: Estimate | None = None

    @property
    def is_faster(self) -> bool:
        """Whether the whole interval of its ratio to plain decoding lies above 1."""
        return self.ratio is not None and self.ratio.low is not None and self.ratio.low > 1.0


@dataclass(frozen=True, slots=True)
class Tuning:
    """All arms, plain first; `draft_cost` is None where the fixed lengths drafted alike."""

    results: tuple[LengthResult, ...]
    draft_cost: float | None

    @property
    def winner(self) -> LengthResult | None:
        """The fastest arm that beats plain decoding; of equals the first; None if none does."""
        faster = [(one, one.ratio.value) for one in self.results if one.ratio and one.is_faster]
        best = max((value for _, value in faster), default=0.0)
        return next((one for one, value in faster if value >= best * (1 - _ROUNDING)), None)


def num_runs(num_prompts: int, max_depth: int, num_seeds: int) -> int:
    """Return how many times `tune` calls its `on_run`."""
    return num_prompts * (max_depth + (max_depth + 2) * num_seeds)


def tune(
    llm: LLM,
    prompts: Sequence[Sequence[int]],
    sampling: SamplingParams,
    *,
    max_depth: int,
    num_seeds: int,
    on_run: Callable[[], None] = lambda: None,
) -> Tuning:
    """Measure plain decoding, depths 1 to `max_depth` and adaptive drafting.

    Args:
        llm: its engine allows `max_depth` draft tokens; runs its own law and drafter.
        prompts: token ids of each; all are run with every seed.
        sampling: `seed` is replaced by 1, 2 ...
        max_depth: longest draft, 1 or more.
        num_seeds: 2 or more.
        on_run: called behind every request.

    Raises:
        RequestError: the answers are too short to be timed, or the self-check at load declined
            blocks of drafts.
    """
    assert max_depth >= 1 and num_seeds >= 2
    if not may_draft(llm.engine.parts.self_check):
        raise RequestError(
            "nothing is drafted on this machine, so no length can be measured: the self-check at "
            "load declined blocks of drafts; leave the settings as they are"
        )
    policy = llm.engine.draft_length
    runner = _Runner(llm, prompts, on_run, policy)
    fixed = [LengthArm(depth) for depth in range(max_depth + 1)]
    try:
        for arm in fixed:
            runner.warm_up(arm, sampling)
        once = replace(sampling, seed=_CALIBRATION_SEED)
        cost = fit_draft_cost(runner.run([LengthResult(arm) for arm in fixed[1:]], once))
        if cost is not None:
            runner.adaptive = replace(policy, is_adaptive=True, draft_cost=cost)
        results = [LengthResult(arm) for arm in (*fixed, LengthArm(max_depth, True))]
        for seed in range(1, num_seeds + 1):
            runner.run(results, replace(sampling, seed=seed))
    finally:
        llm.engine.draft_length = policy
    for result in results:
        result.ratio = paired_ratio(result.speeds, results[0].speeds, len(results) - 1)
    return Tuning(tuple(results), cost)


def paired_ratio(speeds: Sequence[float], plain: Sequence[float], num_arms: int) -> Estimate:
    """Return the geometric mean of the ratios by seed, with its interval.

    The best of several arms is chosen by these intervals, so that each is wide enough for all
    `num_arms` of them together to hold at `CONFIDENCE` (Bonferroni).
    """
    logs = [math.log(one / base) for one, base in zip(speeds, plain, strict=True)]
    num, mean = len(logs), statistics.fmean(logs)
    quantile = t_quantile(num - 1, 1 - (1 - CONFIDENCE) / num_arms)
    half = quantile * statistics.stdev(logs) / math.sqrt(num)
    return Estimate(math.exp(mean), math.exp(mean - half), math.exp(mean + half), num)


def fit_draft_cost(tallies: Sequence[Sequence[Tally]]) -> float | None:
    """Return what a draft token adds to a step, in steps without drafts; None if undetermined.

    A line through (draft tokens a step, seconds a step), below 0 taken as 0. Its slope is the
    median over pairs of requests with one prompt, so that a busy moment moves it little.

    Args:
        tallies: one request each, [num_prompts][num_lengths].

    Source: Sen, 1968 (the median of pairwise slopes).
    """
    points = [[_per_step(one) for one in row if one.num_verify_steps > 1] for row in tallies]
    slopes = [
        (y - other_y) / (x - other_x)
        for row in points
        for (x, y), (other_x, other_y) in itertools.combinations(row, 2)
        if abs(x - other_x) >= _LEAST_SPREAD
    ]
    if not slopes:
        return None
    slope = max(0.0, statistics.median(slopes))
    intercept = statistics.median(y - slope * x for row in points for x, y in row)
    return slope / intercept if intercept > 0 else None


def _per_step(tally: Tally) -> tuple[float, float]:
    """Return draft tokens and seconds a step; a request's first step belongs to its prompt."""
    num_steps = tally.num_verify_steps - 1
    return tally.num_draft_tokens / num_steps, tally.decode_s / num_steps


class _Runner:
    """Decodes the prompts, one after the other, with every arm."""

    def __init__(
        self,
        llm: LLM,
        prompts: Sequence[Sequence[int]],
        on_run: Callable[[], None],
        policy: DraftLength,
    ) -> None:
        self._llm = llm
        self._prompts = prompts
        self._on_run = on_run
        self.adaptive = replace(policy, is_adaptive=True)

    def warm_up(self, arm: LengthArm, sampling: SamplingParams) -> None:
        """Decode a few tokens of the first prompt."""
        few = replace(sampling, max_tokens=min(_WARM_UP_TOKENS, sampling.max_tokens))
        self._decode(self._prompts[0], arm, few)

    def run(self, results: Sequence[LengthResult], sampling: SamplingParams) -> list[list[Tally]]:
        """Decode every prompt with every arm, and add one speed to each.

        Returns:
            One tally a request, [num_prompts][num_arms].

        Raises:
            RequestError: an arm has nothing to time.
        """
        seed = sampling.seed or 0
        rows: list[list[Tally]] = []
        for index, prompt in enumerate(self._prompts):
            tallies: dict[LengthArm, Tally] = {}
            shift = (seed + index) % len(results)
            for result in (*results[shift:], *results[:shift]):
                result.receipt = self._decode(prompt, result.arm, sampling)
                tallies[result.arm] = result.receipt.tally
                self._on_run()
            rows.append([tallies[result.arm] for result in results])
        for column, result in enumerate(results):
            _add_seed(result, [row[column] for row in rows])
        return rows

    def _decode(self, prompt: Sequence[int], arm: LengthArm, sampling: SamplingParams) -> Receipt:
        depth = arm.num_speculative_tokens
        self._llm.engine.draft_length = self.adaptive if arm.is_adaptive else DraftLength()
        with _quickest_shape(self._llm, is_plain=depth == 0):
            *_, last = self._llm.stream(prompt, sampling, None, depth)
        assert last.receipt is not None
        return last.receipt


def _add_seed(result: LengthResult, tallies: Sequence[Tally]) -> None:
    total = Tally()
    for tally in tallies:
        total.add(tally)
    num_timed = total.num_output_tokens - len(tallies)
    if num_timed <= 0 or total.decode_s <= 0:
        raise RequestError(
            "the answers end at their first token, so there is nothing to time; give other "
            "--prompts or more --max-tokens",
            param="max_tokens",
        )
    result.speeds.append(num_timed / total.decode_s)
    result.tally.add(total)


@contextmanager
def _quickest_shape(llm: LLM, *, is_plain: bool) -> Iterator[None]:
    """Let plain decoding run without padded rows; drafting runs as configured."""
    backend, shape = llm.engine.parts.backend, llm.engine.config.row_shape
    if not (is_plain and isinstance(backend, OpenVINOBackend)):
        yield
        return
    check = llm.engine.parts.self_check
    backend.set_row_shape(row_shape_in_use(check, "fast"))
    try:
        yield
    finally:
        backend.set_row_shape(row_shape_in_use(check, shape))
