"""Makes docs/laws from the code: `python -m tests.support.law_pages` writes the pages anew.

One page and one picture a law and preset, and README.md over all of them. Formulas, guarantees,
options and numbers are the code's; words are those of `law_words`, `preset_words` and
`law_overview`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from leeway.acceptance.base import Guarantee
from leeway.acceptance.explain import explain
from leeway.acceptance.options import allowed
from leeway.acceptance.set_law import OFF_SETS
from tests.support.law_cases import is_on_frontier
from tests.support.law_facts import (
    FIVE,
    THREE,
    Subject,
    fill,
    option_text,
    options_text,
    shown,
    subjects,
    with_option,
)
from tests.support.law_overview import (
    COIN_SHORT,
    COIN_WINS,
    FRONTIER,
    GUARANTEES,
    HEAD,
    SET_RULES,
    VERIFIERS,
)
from tests.support.law_overview import OFF_SETS as OFF_SET_WORDS
from tests.support.law_picture import WIDTH, Panel, Token, picture, short
from tests.support.law_words import LAWS
from tests.support.preset_words import PRESETS

FOLDER = Path(__file__).parents[2] / "docs" / "laws"
WORDS = {**LAWS, **PRESETS}
OVERVIEW = "README.md"
_ROW_TITLES = ("token", "target p", "draft q", "kept", "accept", "recovered", "emitted")
_PAIRS = (
    ("The rows of leeway explain", THREE),
    ("Five tokens, the last impossible for the target", FIVE),
)
_SHOWN_SET_RULE = "tokenv3"


def pages() -> dict[str, str]:
    """Return every file of docs/laws by name."""
    files = {OVERVIEW: _overview()}
    for subject in subjects():
        files[f"{subject.name}.md"] = _page(subject)
        files[f"{subject.name}.svg"] = _drawn(subject)
    return files


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table in Markdown."""
    safe = [[cell.replace("|", "\\|") for cell in row] for row in (head, *rows)]
    lines = [f"| {' | '.join(row)} |" for row in safe]
    return [lines[0], "|---" * len(head) + "|", *lines[1:]]


def _page(subject: Subject) -> str:
    law, words = subject.law, WORDS[subject.name]
    three, five = shown(law, THREE), shown(law, FIVE)
    lines = [
        f"# {subject.name}",
        "",
        _summary(subject),
        "",
        *table(("", ""), _facts(subject)),
        "",
        f'<img src="{subject.name}.svg" width="{WIDTH}" alt="{_alt(subject)}">',
        "",
        f"*Target, draft and emitted row under {_full_name(subject)}. Rows of `leeway explain`: "
        f"accepted A = {three.A}, TV = {three.TV} from the target, the draft's D = {three.D}. Rows "
        f"of five tokens: A = {five.A}, TV = {five.TV}, D = {five.D}.*",
        "",
        "## When to use it",
        "",
        *(f"- {sentence}" for sentence in words.use),
        "",
        "## When not",
        "",
        *(f"- {sentence}" for sentence in words.avoid),
        "",
        "## The example worked through",
        "",
        fill(subject, words.worked),
        "",
        *_arithmetic(subject),
        *_options(subject),
        *_asking(subject),
        "[All laws](README.md)",
    ]
    return "\n".join(lines) + "\n"


def _summary(subject: Subject) -> str:
    summary = subject.law.info.summary
    if subject.preset is None:
        return f"{summary[0].upper()}{summary[1:]}."
    return (
        f"A preset: [{subject.preset.law}]({subject.preset.law}.md) with "
        f"{options_text(subject.preset.options)}, that is: {summary}."
    )


def _full_name(subject: Subject) -> str:
    options = f" ({options_text(subject.options)})" if subject.options else ""
    return f"`{subject.name}`{options}"


def _facts(subject: Subject) -> list[tuple[str, str]]:
    law = subject.law
    info = law.info
    source = info.source if subject.preset is None else subject.preset.source
    return [
        ("guarantee", f"**{info.guarantee}**: {GUARANTEES[info.guarantee]}"),
        ("formula", f"`{info.formula}`"),
        ("judges", _judges(subject)),
        ("temperature 0", info.temperature_zero),
        (
            "draft probabilities",
            "needed: refused beside drafters that have none (n-gram)"
            if info.needs_draft_rows
            else "not needed: goes with every drafter",
        ),
        ("tokens that the target cannot give", _support(subject)),
        (
            "acceptance for its loss",
            "the most there can be: A = 1 - D + TV"
            if is_on_frontier(law)
            else "less than there could be: A <= 1 - D + TV",
        ),
        ("source" if subject.preset is None else "as in", source),
    ]


def _judges(subject: Subject) -> str:
    words = VERIFIERS[subject.law.verifier]
    if "verifier" in subject.law.options:
        words += "; with `verifier=block` a block as a whole, against the same emitted rows"
    return words


def _support(subject: Subject) -> str:
    law = subject.law
    if law.info.may_leave_support:
        return "may be emitted, unless under `--hard-support`"
    if "rows" in law.options and with_option(law, "rows", "raw").info.may_leave_support:
        return "never emitted; with `rows=raw` they may be, unless under `--hard-support`"
    return "never emitted"


def _arithmetic(subject: Subject) -> list[str]:
    lines = []
    for index, (_, pair) in enumerate(_PAIRS):
        told = shown(subject.law, pair)
        rows = [
            (str(token), p, q, "yes" if kept else "no", a, r, e)
            for token, (p, q, kept, a, r, e) in enumerate(
                zip(told.p, told.q, told.kept, told.a, told.r, told.e, strict=True)
            )
        ]
        lines += [
            "```sh",
            explain_command(subject, None if index == 0 else pair),
            "```",
            "",
            *table(_ROW_TITLES, rows),
            "",
            f"Accepted A = {told.A}; TV = {told.TV}; KL = {told.KL}; the draft's D = {told.D}.",
            "",
        ]
    return lines


def explain_command(subject: Subject, pair: tuple[Sequence[float], Sequence[float]] | None) -> str:
    """Return the command that prints a page's arithmetic."""
    words = ["leeway explain", subject.name, *_flags(subject.options)]
    if pair is not None:
        target, draft = (",".join(f"{prob:g}" for prob in row) for row in pair)
        words += ["--target-probs", target, "--draft-probs", draft]
    return " ".join(words)


def _flags(options: Mapping[str, object]) -> list[str]:
    return [f"--law-option {name}={option_text(value)}" for name, value in options.items()]


def _options(subject: Subject) -> list[str]:
    if subject.preset is not None:
        law = subject.preset.law
        return [
            "## Options",
            "",
            f"Those of [{law}]({law}.md#options). What is given overrides the preset's own.",
            "",
        ]
    knobs = subject.law.info.knobs
    if not knobs:
        return ["## Options", "", "None.", ""]
    rows = [
        (
            f"`{knob.name}`",
            allowed(knob),
            "must be given"
            if knob.is_required
            else ("none" if knob.default is None else option_text(knob.default)),
            knob.exact_end,
            knob.meaning,
        )
        for knob in knobs
    ]
    lines = ["## Options", "", *table(("", "values", "default", "exact at", "meaning"), rows), ""]
    if "off_set" in subject.law.options:
        title = "The four off-sets on the rows of five tokens:"
        lines += [title, "", *_off_sets(subject), COIN_SHORT, ""]
    return lines


def _off_sets(subject: Subject) -> list[str]:
    own = subject.law.options["off_set"]
    rows = []
    for off_set in OFF_SETS:
        told = shown(with_option(subject.law, "off_set", off_set), FIVE)
        label = f"`{off_set}`" + (" (default)" if off_set == own else "")
        rows.append((label, *OFF_SET_WORDS[off_set], told.A, told.TV, told.KL))
    head = ("off_set", "accepted outside T", "drawn on rejection", "emitted", "A", "TV", "KL")
    return [*table(head, rows), ""]


def _asking(subject: Subject) -> list[str]:
    options = dict(subject.options)
    request = {"speculative": {"law": subject.name, **options}}
    given = f", {json.dumps(options)}" if options else ""
    law = subject.law.info
    where = (
        "any request"
        if law.guarantee is not Guarantee.NONE
        else f"a request to a server whose `--allow-laws` names `{law.name}` or `all`, or that was "
        "started with this law"
    )
    return [
        "## How to ask for it",
        "",
        "```sh",
        " ".join(["leeway serve --law", subject.name, *_flags(options)]),
        "```",
        "",
        f"In {where}:",
        "",
        "```json",
        json.dumps(request),
        "```",
        "",
        "In Python:",
        "",
        "```python",
        f'Acceptance("{subject.name}"{given})',
        "```",
        "",
    ]


def _drawn(subject: Subject) -> str:
    panels = []
    for title, pair in _PAIRS:
        facts = explain(subject.law, *pair)
        told = shown(subject.law, pair)
        rows = (facts[f"{name}_probs"] for name in ("target", "draft", "emitted"))
        tokens = tuple(
            Token(f"token {token}", probs, "kept" if kept else f"accept {short(accept)}")
            for token, (probs, kept, accept) in enumerate(
                zip(zip(*rows, strict=True), facts["is_kept"], facts["accept_probs"], strict=True)
            )
        )
        line = f"accepted {told.A}, TV {told.TV}, the draft's TV {told.D}"
        panels.append(Panel(title, line, tokens))
    name = ", ".join(filter(None, (subject.name, options_text(subject.options))))
    return picture(name, panels, _alt(subject))


def _alt(subject: Subject) -> str:
    said = []
    for title, pair in _PAIRS:
        told = shown(subject.law, pair)
        said.append(
            f"{title}: target {', '.join(told.p)}; draft {', '.join(told.q)}; emitted "
            f"{', '.join(told.e)}; accepted {told.A}, total variation {told.TV}."
        )
    return f"Bars of target, draft and emitted row under {subject.name}. {' '.join(said)}"


def _overview() -> str:
    every = subjects()
    laws = [subject for subject in every if subject.preset is None]
    presets = [subject for subject in every if subject.preset is not None]
    set_rule = next(subject for subject in laws if subject.name == _SHOWN_SET_RULE)
    lines = [
        HEAD,
        "## All laws",
        "",
        *table(("law", "guarantee", "formula", "when to use it"), [_law_row(one) for one in laws]),
        "",
        "## Presets",
        "",
        "Another system's settings of one of the laws, under a name that says whose.",
        "",
        *table(("preset", "is", "when to use it"), [_preset_row(one) for one in presets]),
        "",
        FRONTIER,
        *table(("law", "with", "A", "TV", "KL", "given away"), [_figures(one) for one in every]),
        "",
        SET_RULES.format(name=set_rule.name, options=options_text(set_rule.options)),
        *_off_sets(set_rule),
        COIN_WINS,
    ]
    return "\n".join(lines).rstrip("\n") + "\n"


def _law_row(subject: Subject) -> tuple[str, ...]:
    info = subject.law.info
    formula = f"`{info.formula}`"
    return _link(subject.name), str(info.guarantee), formula, WORDS[subject.name].short


def _preset_row(subject: Subject) -> tuple[str, ...]:
    assert subject.preset is not None
    law, options = subject.preset.law, options_text(subject.preset.options)
    return _link(subject.name), f"{_link(law)} with {options}", WORDS[subject.name].short


def _figures(subject: Subject) -> tuple[str, ...]:
    told = shown(subject.law, FIVE)
    options = options_text(subject.options)
    return _link(subject.name), options, told.A, told.TV, told.KL, told.away


def _link(name: str) -> str:
    return f"[{name}]({name}.md)"


def main() -> None:
    """Write the folder anew."""
    FOLDER.mkdir(exist_ok=True)
    for name, content in pages().items():
        (FOLDER / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
