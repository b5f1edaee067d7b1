"""The serving contract: what holds under speculation, and which tests hold it there.

`python -m tests.support.serving_contract > docs/serving.md` writes the page. A test belongs to a
behaviour by its name, `test_t07_…`, and may belong to several, `test_t03_t17_…`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).parents[2]
_TEST = re.compile(r"^\s*(?:async )?def test_((?:t\d\d_)+)", re.MULTILINE)

BEHAVIOURS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "t01": (
            "temperature 0",
            "The ids are those of plain decoding, whoever drafts and however well, at every depth "
            "and wherever a prompt ends in a block of the cache.",
        ),
        "t02": (
            "the law of an answer",
            "Every draft and every coin of the served loop enumerated, exact laws give the "
            "target's joint law and lossy ones their documented rows, to 1e-12; long answers with "
            "the coins that serve pass a chi-square test against the same rows.",
        ),
        "t03": (
            "seeds",
            "A seed gives one text, in company and behind a restart; other seeds give others; "
            "without one, answers differ and name the seed that was drawn.",
        ),
        "t04": (
            "independent coins",
            "No coin is thrown twice, for two purposes or in two blocks; coins of one place and "
            "of neighbours are uncorrelated; a correction follows its row given the token that "
            "was rejected.",
        ),
        "t05": (
            "stop strings",
            "Text, ids, log probabilities, usage and cache end alike, wherever the string falls; "
            "its beginning alone is delivered.",
        ),
        "t06": (
            "end tokens",
            "Nothing comes behind an end token, drafted, recovered or bonus, in text, ids, usage "
            "or cache.",
        ),
        "t07": ("max_tokens", "Exactly so many tokens come, whatever the block."),
        "t08": (
            "min_tokens",
            "Before so many tokens none can come that ends the answer, under any law.",
        ),
        "t09": (
            "log probabilities",
            "Each delivered token has one entry, of the target's raw row, equal to a teacher-"
            "forced reading of the same ids.",
        ),
        "t10": ("penalties", "They count as in plain decoding, drafted tokens included."),
        "t11": (
            "bias and truncation",
            "Bias, top-k, top-p and min-p act as in plain decoding; samplers that are not there "
            "are refused.",
        ),
        "t12": (
            "forms",
            "An answer in a given form parses, ends, and has the target's own law over what the "
            "form allows; only committed tokens move its state.",
        ),
        "t13": (
            "characters of several tokens",
            "They come whole, wherever a block or the answer ends; streams join to the same text.",
        ),
        "t14": (
            "streams",
            "Joined, they are the whole answer, byte for byte: content, reasoning and calls, each "
            "byte in one channel.",
        ),
        "t15": (
            "cancelling",
            "A client that leaves gives its place and memory back within a step; others do not "
            "notice; only committed tokens stay cached.",
        ),
        "t16": (
            "the context's end",
            "The last place of the context is served; a prompt that leaves none is refused before "
            "anything runs.",
        ),
        "t17": ("company", "Each of many requests gets the answer that it gets alone."),
        "t18": (
            "the prefix cache",
            "What is found in it equals a cold reading, is reported, and never holds what was "
            "rejected, cancelled or behind an end.",
        ),
        "t19": (
            "accounts",
            "Counts of receipts, usage and metrics add up, over one request and over many.",
        ),
        "t20": (
            "what is not understood",
            "A field, a value or a body that cannot be honoured is a 400 that names it, whatever "
            "is sent; nothing sent is a failure of the server.",
        ),
        "t21": (
            "loops and rows that are no numbers",
            "A loop ends with its limit; a row that is no number ends its own request only; in a "
            "draft it costs drafts only.",
        ),
        "t22": (
            "configuration",
            "What a setting cannot be is refused with its source, in every layer; health has the "
            "value in force, its source, and what was engaged.",
        ),
        "t23": (
            "speculation off",
            "One field of a request switches every drafter off; the text at temperature 0 stays.",
        ),
        "t24": (
            "switches by length and width",
            "What changes over by length, width or room changes no law and no token; a drafter "
            "that is given up is named in the receipt.",
        ),
        "t25": (
            "wrong kernels",
            "Forwards of one, a few and many rows are compared at load; the one that disagrees is "
            "not used, which the log, health and receipts say, and the server serves.",
        ),
    }
)


def tests_of(root: Path = ROOT / "tests") -> dict[str, dict[str, int]]:
    """Return for each behaviour the files that have tests of it, with their number."""
    found: dict[str, dict[str, int]] = {}
    for path in sorted(root.rglob("test_*.py")):
        for match in _TEST.finditer(path.read_text(encoding="utf-8")):
            for name in match[1].split("_")[:-1]:
                files = found.setdefault(name, {})
                place = path.relative_to(root.parent).as_posix()
                files[place] = files.get(place, 0) + 1
    return found


def page() -> str:
    """Return docs/serving.md."""
    found = tests_of()
    lines = [
        "# What holds under speculation",
        "",
        "What clients and operators rely on, and where speculative servers have failed in public. "
        "Tests have the number of what they hold in their name (`test_t07_…`), so "
        "`pytest -k t07` runs those of one behaviour. Most run over every law with every drafter, "
        "on a model that is a table; where real text matters, on the small model too.",
        "",
        "| | behaviour | what holds | tests |",
        "|---|---|---|---|",
    ]
    for name, (title, words) in BEHAVIOURS.items():
        files = ", ".join(f"[{Path(one).stem}](../{one})" for one in found.get(name, {}))
        lines.append(f"| {name} | {title} | {words} | {files} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
