"""`leeway quality martingale`: whether what is decoded is what the target would have said."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from leeway.cli.call import Call, Screen
from leeway.cli.options import MODEL_NAME, takes_settings
from leeway.core.errors import ConfigError
from leeway.core.types import SamplingParams

if TYPE_CHECKING:
    from rich.console import Console

    from leeway.core.receipt import Receipt, Tally
    from leeway.engine.engine import Engine
    from leeway.quality.answers import Answered
    from leeway.quality.loss_meter import Losses
    from leeway.quality.martingale import MartingaleTest, UniformityTest

DEFINITIONS = {
    "bias": "mean of log p(token) + entropy of p over all emitted tokens, nats; p is the target's "
    "row behind the text so far, with the request's own sampler; 0 where tokens are drawn from p, "
    "above 0 where the text is likelier than the target's own",
    "z": "sum of log p + entropy / root of the sum of its variances under p; standard normal where "
    "tokens are drawn from p; two-sided",
    "by answer": "the same sum with its variance taken between answers",
    "PIT": "chi-square over 50 bins of where each token lies in the cumulative row; sees shifts "
    "that leave log p alone",
    "loss": "total variation between the row emitted and the target's row over decided positions: "
    "mean, what 99 % do not exceed, share above 0.1",
    "distinct": "distinct / all n-grams of the tokens of an answer, n = 1, 2, 3; mean over answers",
    "detectable": "smallest bias that so many tokens find with power 0.8 at the 1 % level",
}
_DEFAULT_TOKENS = 10_000
_PROMPTS = Parameter(
    metavar="FILE",
    show_default=False,
    help="JSONL with one prompt a line, as `leeway bench run` reads it. Without it: a few of "
    "Leeway's own.",
)
_TOKENS = Parameter(
    metavar="N", help="Answer prompts, from the first again behind the last, to so many tokens."
)


@dataclass(frozen=True, slots=True)
class _Found:
    """What was measured."""

    receipt: Receipt
    tally: Tally
    seed: int
    martingale: MartingaleTest
    uniformity: UniformityTest | None
    losses: Losses
    distinct: tuple[float | None, ...]


@takes_settings("sampling", "law", "drafting", "model")
def martingale(
    call: Call,
    model_name: Annotated[str | None, MODEL_NAME] = None,
    /,
    *,
    prompts: Annotated[Path | None, _PROMPTS] = None,
    tokens: Annotated[int, _TOKENS] = _DEFAULT_TOKENS,
) -> None:
    """Test whether emitted text was drawn from the target.

    Decodes with the law, drafter and sampler in force, several requests at once, and then feeds the
    answers to the target. Under an exact law the test rejects once in a hundred seeds; a lossy law
    is seen once its bias exceeds what so many tokens can detect. Answer number i runs with
    seed + i; the seed is 0 unless given.
    """
    config, screen = call.with_model(model_name).resolve()
    if tokens < 1:
        raise ConfigError(f"--tokens {tokens} is out of range; give 1 or more")
    from leeway.bench.default_workload import SOURCES
    from leeway.bench.workload import encode, read_sources
    from leeway.cli.loading import load_llm, naming_origins
    from leeway.quality.martingale import check_testable

    with naming_origins(config):
        check_testable(config.sampling)
    sources = SOURCES if prompts is None else read_sources(prompts)
    with load_llm(config, screen) as llm, naming_origins(config):
        engine = llm.engine
        encoded = encode(sources, engine.parts.tokenizer, engine.parts.chat_template)
        prompt_ids = [prompt.token_ids for prompt in encoded]
        found = _measure(engine, prompt_ids, config.sampling, tokens, screen)
    if screen.is_json:
        screen.print_json({"model": engine.parts.model_name} | _as_json(found, config.sampling))
    else:
        _print(found, engine.parts.model_name, config.sampling, screen)


def _measure(
    engine: Engine,
    prompts: list[tuple[int, ...]],
    sampling: SamplingParams,
    min_tokens: int,
    screen: Screen,
) -> _Found:
    from leeway.quality.answers import collect_answers, total_tally
    from leeway.quality.loss_meter import LossWatch
    from leeway.quality.martingale import martingale_test
    from leeway.quality.repetition import distinct_rate, ngram_counts

    seed, watch = 0 if sampling.seed is None else sampling.seed, LossWatch()
    with _bar(screen, "decoding", min_tokens) as show:
        answers = collect_answers(
            watch.watching(engine),
            prompts,
            sampling,
            min_tokens=min_tokens,
            seed=seed,
            on_tokens=show,
        )
    scores = _score_all(engine, answers, sampling, screen)
    receipt = answers[0].receipt
    assert receipt is not None
    return _Found(
        receipt=receipt,
        tally=total_tally(answers),
        seed=seed,
        martingale=martingale_test(scores),
        uniformity=_test_uniformity(answers, scores),
        losses=watch.take_all(),
        distinct=tuple(
            distinct_rate([ngram_counts(one.token_ids, length) for one in answers])
            for length in (1, 2, 3)
        ),
    )


def _score_all(
    engine: Engine, answers: list[Answered], sampling: SamplingParams, screen: Screen
) -> list[Any]:
    from leeway.quality.teacher_forcing import score

    scores, num_tokens = [], 0
    total = sum(len(one.token_ids) for one in answers)
    with _bar(screen, "feeding the answers to the target", total) as show:
        for one in answers:
            scores.append(score(engine.parts.backend, one.prompt_ids, one.token_ids, sampling))
            num_tokens += len(one.token_ids)
            show(num_tokens)
    return scores


def _test_uniformity(answers: list[Answered], scores: list[Any]) -> UniformityTest | None:
    from leeway.core.rng import Purpose, uniform
    from leeway.quality.martingale import uniformity_test

    def coin(answer: int, token: int) -> float:
        return uniform(answers[answer].seed, token, 0, Purpose.MEASURE)

    return uniformity_test(scores, coin)


@contextmanager
def _bar(screen: Screen, what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Give something that shows how many tokens are done: a bar on a terminal, else one line."""
    if not screen.is_live:
        screen.note(f"{what}: {total:,} tokens ...")
        yield lambda _: None
        return
    from leeway.cli.loading import counting_bars

    with counting_bars(screen, is_transient=True) as bars:
        task = bars.add_task(what, total=total)
        yield lambda done: bars.update(task, completed=min(done, total))


def _as_json(found: _Found, sampling: SamplingParams) -> dict[str, Any]:
    receipt, test = found.receipt, found.martingale
    return {
        "definitions": DEFINITIONS,
        "law": receipt.law,
        "options": dict(receipt.options),
        "guarantee": receipt.guarantee,
        "verifier": receipt.verifier,
        "drafter": receipt.drafter,
        "num_speculative_tokens": receipt.num_speculative_tokens,
        "sampling": {
            "temperature": sampling.temperature,
            "top_k": sampling.top_k,
            "top_p": sampling.top_p,
            "min_p": sampling.min_p,
            "max_tokens": sampling.max_tokens,
        },
        "seed": found.seed,
        "counts": found.tally.counts(),
        "rates": found.tally.rates(),
        "loss": found.tally.loss()
        | {"p99": found.losses.tail, "high_rate": found.losses.high_rate},
        "distinct": list(found.distinct),
        "martingale": asdict(test),
        "pit": None if found.uniformity is None else asdict(found.uniformity),
        "rejects": test.rejects,
        "verdict": _verdict(found),
    }


def _print(found: _Found, model: str, sampling: SamplingParams, screen: Screen) -> None:
    out, receipt, test = screen.out(), found.receipt, found.martingale
    options = "".join(f", {name} {value}" for name, value in receipt.options.items())
    rates = found.tally.rates()
    out.print(f"model       {model}, drafter {receipt.drafter}")
    out.print(f"law         {receipt.law}{options}; guarantee {receipt.guarantee}")
    out.print(
        f"sampler     temperature {sampling.temperature:g}, top-p {sampling.top_p:g}, "
        f"top-k {sampling.top_k or 'off'}, seeds from {found.seed}"
    )
    out.print(
        f"decoded     {test.num_answers} answers, {found.tally.num_output_tokens:,} tokens, "
        f"{rates['tokens_per_verify_step']:.2f} a verify step"
    )
    _print_rows_and_text(out, found)
    _print_tests(out, test, found.uniformity)
    out.print(f"verdict     {_verdict(found)}")
    if not screen.is_quiet:
        out.print()
        for name, meaning in DEFINITIONS.items():
            out.print(f"{name}: {meaning}", style="dim")


def _print_rows_and_text(out: Console, found: _Found) -> None:
    loss, tail = found.tally.loss()["total_variation_mean"], found.losses.tail
    if loss is not None and tail is not None:
        out.print(
            f"loss        mean {loss:.3f}, p99 {tail:.3f}, {found.losses.high_rate:.1%} of "
            f"{found.losses.num_positions:,} positions above 0.1"
        )
    shown = ", ".join("-" if rate is None else f"{rate:.3f}" for rate in found.distinct)
    out.print(f"distinct    {shown}")


def _print_tests(out: Console, test: MartingaleTest, pit: UniformityTest | None) -> None:
    low, high = test.interval
    out.print(
        f"bias        {test.bias:+.4f} nats a token (95 % {low:+.4f} to {high:+.4f}; "
        f"detectable {test.detectable_bias:.4f})"
    )
    out.print(f"z           {test.z:+.2f}, p = {test.p_value:.3g}, n = {test.num_tokens:,} tokens")
    if test.clustered is None:
        out.print("by answer   too few answers")
    else:
        low, high = test.clustered.interval
        out.print(
            f"by answer   z {test.clustered.z:+.2f}, p = {test.clustered.p_value:.3g} "
            f"(bias 95 % {low:+.4f} to {high:+.4f})"
        )
    if pit is None:
        out.print("PIT         too few tokens")
    else:
        degrees = pit.num_bins - 1
        out.print(f"PIT         chi-square {pit.statistic:.1f} on {degrees}, p = {pit.p_value:.3g}")
    if test.num_outside:
        out.print(
            f"outside     {test.num_outside} tokens have no probability in the target's row as "
            "computed anew; not tested"
        )


def _verdict(found: _Found) -> str:
    from leeway.quality.martingale import SIGNIFICANCE

    test, pit = found.martingale, found.uniformity
    promises = found.receipt.guarantee == "exact_distribution"
    if test.rejects:
        side = "likelier" if test.bias > 0 else "less likely"
        seen = (
            f"rejected at 1 %: {side} than the target's own text by {abs(test.bias):.4f} nats a "
            "token"
        )
    elif pit is not None and pit.p_value < SIGNIFICANCE:
        seen = (
            f"not rejected at 1 % by log p, but by PIT (p = {pit.p_value:.3g}): tokens lie "
            "elsewhere in the target's rows than its own would"
        )
    else:
        verdict = "not rejected at 1 %: nothing seen that the target's own text would not show"
        if test.num_outside:
            verdict = (
                f"not rejected at 1 %, but {test.num_outside} tokens without probability in the "
                "target's rows were not tested"
            )
        return verdict if promises else f"{verdict}; the law does not promise it"
    if promises:
        return f"{seen}, although the law promises it: a fault, or one seed in a hundred"
    return f"{seen}, as a law without that guarantee may be"
