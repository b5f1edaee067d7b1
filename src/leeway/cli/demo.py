"""`leeway demo`: the same prompt under an exact law and two lossy ones, with speed and loss."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from leeway.cli.call import Call, Screen
from leeway.cli.options import MODEL_NAME, takes_settings
from leeway.core.errors import ConfigError
from leeway.core.types import Acceptance, SamplingParams

if TYPE_CHECKING:
    from rich.text import Text

    from leeway.bench.side_by_side import Arm, ArmResult
    from leeway.core.config import Config
    from leeway.llm import LLM

PROMPT = """Copy this text and correct the spelling mistakes:

The harbour keeps a ledger of every boat that enters: its name, its lenght, the hour and the \
hight of the tide. Old entries are in ink, new ones are typed, and between them lies a decade of \
pencil that only the harbour master can read. When two boats arive together the one with the \
deeper keel goes first, because the channel silts up and the pilot would rather wait than dredge."""
_MAX_ROUNDS = 5
_TIME_LIMIT_S = 35.0
_WIDE = 110
_TEMPERATURE = 0.8
_MAX_TOKENS = 128


@takes_settings("sampling", "law", "drafting", "model")
def demo(
    call: Call,
    model_name: Annotated[str | None, MODEL_NAME] = None,
    /,
    *,
    prompt: Annotated[
        str | None,
        Parameter(
            name=["--prompt", "-p"],
            metavar="TEXT",
            allow_leading_hyphen=True,
            help="Another prompt than the demonstration's own.",
        ),
    ] = None,
    chart: Annotated[
        Path | None,
        Parameter(metavar="FILE", help="Also write speed against loss as an SVG picture."),
    ] = None,
) -> None:
    """Decode one prompt plainly, under an exact law and under two lossy ones, side by side.

    Takes about a minute. Every arm runs with the same seeds, interleaved, in one process. A law
    chosen by flags takes part as a fifth arm. Temperature is 0.8 and max tokens 128 unless given.
    """
    config, screen = call.with_model(model_name).resolve()
    from leeway.bench.side_by_side import compare
    from leeway.cli.loading import load_llm, naming_origins

    with load_llm(config, screen) as llm, naming_origins(config):
        prompt_ids = llm.encode_messages([{"role": "user", "content": prompt or PROMPT}])
        results = compare(
            llm,
            prompt_ids,
            _arms(config),
            _sampling(config),
            max_rounds=_MAX_ROUNDS,
            time_limit_s=_TIME_LIMIT_S,
            on_round=lambda seed: screen.note(f"decoding under each law, seed {seed} ..."),
        )
        drafter = llm.engine.parts.drafter.name
        if chart is not None:
            _write_chart(chart, results, config, drafter)
        if screen.is_json:
            screen.print_json(_as_json(results, prompt or PROMPT, config, drafter))
            return
        _print_texts(results, llm, screen)
        _print_table(results, screen)
        _print_verdict(results, drafter, screen)


def _sampling(config: Config) -> SamplingParams:
    """Return the sampling asked for, with the demonstration's own defaults."""
    sampling, values = config.sampling, config.values
    temperature = sampling.temperature if values["temperature"].is_given else _TEMPERATURE
    max_tokens = sampling.max_tokens if values["max_tokens"].is_given else _MAX_TOKENS
    return replace(sampling, temperature=temperature, max_tokens=max_tokens)


def _write_chart(path: Path, results: list[ArmResult], config: Config, drafter: str) -> None:
    from leeway.bench.side_by_side_chart import speed_against_loss

    picture = speed_against_loss(results, config.engine.model, drafter)
    try:
        path.write_text(picture, encoding="utf-8")
    except OSError as reason:
        raise ConfigError(f"--chart {str(path)!r} cannot be written: {reason.strerror}") from None


def _arms(config: Config) -> list[Arm]:
    from leeway.bench.side_by_side import Arm

    arms = [
        Arm("plain", Acceptance("rejection"), num_speculative_tokens=0),
        Arm("rejection", Acceptance("rejection")),
        Arm("typical", Acceptance("typical", {"delta": 0.3})),
        Arm("tokenv3", Acceptance("tokenv3", {"alpha": 0.5})),
    ]
    asked = config.engine.acceptance
    if all(asked != arm.acceptance for arm in arms):
        arms.append(Arm("yours", asked))
    return arms


def _as_json(results: list[ArmResult], prompt: str, config: Config, drafter: str) -> dict[str, Any]:
    from leeway.bench.side_by_side import DEFINITIONS

    arms = []
    for result in results:
        assert result.receipt is not None
        arms.append(
            {
                "name": result.arm.name,
                "law": result.receipt.law,
                "options": dict(result.receipt.options),
                "guarantee": result.receipt.guarantee,
                "tokens_per_s": asdict(result.tokens_per_s),
                "plain_ratio": asdict(result.plain_ratio),
                "tokens_per_verify_step": result.tally.rates()["tokens_per_verify_step"],
                "kept_draft_rate": result.tally.rates()["kept_draft_rate"],
                "loss": result.tally.loss(),
                "text": result.text,
            }
        )
    return {
        "definitions": DEFINITIONS,
        "model": config.engine.model,
        "drafter": drafter,
        "prompt": prompt,
        "arms": arms,
    }


def _print_texts(results: list[ArmResult], llm: LLM, screen: Screen) -> None:
    from rich.table import Table

    from leeway.cli.provenance import print_legend

    out = screen.out()
    texts = [_painted(result, llm, is_terminal=out.is_terminal) for result in results]
    if out.width >= _WIDE:
        grid = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2))
        for result in results:
            grid.add_column(result.arm.name, ratio=1)
        grid.add_row(*texts)
        out.print(grid)
    else:
        for result, text in zip(results, texts, strict=True):
            out.print(result.arm.name, style="bold")
            out.print(text)
            out.print()
    out.print()
    print_legend(out)
    out.print()


def _painted(result: ArmResult, llm: LLM, *, is_terminal: bool) -> Text:
    """Return the first seed's text with its provenance marked."""
    from rich.text import Text

    from leeway.cli.provenance import BRACKETS, STYLES
    from leeway.text.provenance import ProvenanceText

    painter, painted = ProvenanceText(llm.engine.parts.tokenizer), Text()
    for delta in result.deltas:
        for text, provenance in painter.split(delta):
            if is_terminal:
                painted.append(text, STYLES[provenance])
            else:
                opening, closing = BRACKETS[provenance]
                painted.append(f"{opening}{text}{closing}")
    return painted


def _print_table(results: list[ArmResult], screen: Screen) -> None:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("arm", no_wrap=True)
    table.add_column("guarantee", no_wrap=True)
    for title in ("tokens/s", "x plain", "tokens/\nstep", "kept", "loss"):
        table.add_column(title, justify="right", no_wrap=True)
    for result in results:
        assert result.receipt is not None
        rates, loss = result.tally.rates(), result.tally.loss()
        speed, ratio = result.tokens_per_s, result.plain_ratio
        table.add_row(
            result.arm.name,
            result.receipt.guarantee,
            f"{speed.median:.0f} ({speed.least:.0f}-{speed.most:.0f})",
            f"{ratio.median:.2f} ({ratio.least:.1f}-{ratio.most:.1f})",
            _number(rates["tokens_per_verify_step"], 2),
            _number(rates["kept_draft_rate"], 2),
            _number(loss["total_variation_mean"], 3),
        )
    screen.out().print(table)


def _print_verdict(results: list[ArmResult], drafter: str, screen: Screen) -> None:
    from leeway.bench.side_by_side import DEFINITIONS

    out = screen.out()
    plain, *others = results
    num_seeds = len(plain.speeds)
    slower = [result.arm.name for result in others if result.plain_ratio.median <= 1]
    out.print(f"Medians over {num_seeds} seeds, least and most in brackets; a small sample.")
    if slower:
        out.print(
            f"Not faster than plain decoding with the {drafter} drafter here: {', '.join(slower)}."
        )
    out.print(
        "Plain decoding and rejection give texts of one and the same distribution (other coins, "
        "so other words). The lossy laws give texts of another distribution, by the loss shown."
    )
    if drafter == "ngram":
        out.print(
            "N-gram drafts repeat what the text already said, and a lossy law keeps them more "
            "often, so watch the texts above for repetition: the loss is taken position by "
            "position and does not measure that."
        )
    if not screen.is_quiet:
        out.print()
        for name, meaning in DEFINITIONS.items():
            out.print(f"{name}: {meaning}", style="dim")


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
