"""Prompts to train on: the standard library's functions, files of the user's, and held-out order.

In: names of sources. Out: prompts as text, one user turn each, without any that `contamination`
knows from an evaluation set. The target's own user turns come from `own_turns`.
"""

from __future__ import annotations

import ast
import json
import random
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from leeway.core.errors import ConfigError
from leeway.heads.contamination import EvaluationPrompts

_FIELDS = ("prompt", "question", "text", "instruction")
_LONGEST_DOCSTRING = 600
_LONGEST_SOURCE = 1200
_REQUESTS = (
    "Write a Python function `{name}({arguments})` that does the following:\n{docstring}",
    "Complete this Python function.\n```python\n{head}\n```",
    "Explain what this Python function does, step by step.\n```python\n{source}\n```",
    "Write unit tests for this Python function.\n```python\n{source}\n```",
    "Rewrite this Python function so that it is easier to read.\n```python\n{source}\n```",
)


@dataclass(frozen=True, slots=True)
class Prompts:
    """Prompts of all sources, mixed; `counts` by source, `num_dropped` met in evaluation sets."""

    texts: tuple[str, ...]
    counts: dict[str, int]
    num_dropped: int


def gather(
    sources: Iterable[tuple[str, Iterable[str]]], evaluation: EvaluationPrompts, seed: int = 0
) -> Prompts:
    """Return each source's prompts without doubles and evaluation prompts, shuffled by `seed`."""
    texts: dict[str, None] = {}
    counts: dict[str, int] = {}
    num_dropped = 0
    for name, prompts in sources:
        before = len(texts)
        for prompt in prompts:
            if evaluation.overlaps(prompt):
                num_dropped += 1
            else:
                texts[prompt] = None
        counts[name] = len(texts) - before
    mixed = list(texts)
    random.Random(seed).shuffle(mixed)
    return Prompts(tuple(mixed), counts, num_dropped)


def stdlib_prompts(seed: int = 0) -> Iterator[str]:
    """Yield requests about documented functions of Python's standard library (PSF licence)."""
    picker = random.Random(seed)
    root = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).parts
        if "site-packages" in parts or "test" in parts or "tests" in parts:
            continue
        try:
            source = path.read_text(encoding="utf-8")
            tree = ast.parse(source)
            lines = source.encode().split(b"\n")
        except (OSError, SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and (docstring := ast.get_docstring(node)):
                yield _request(picker, node, docstring, _source_of(node, lines))


def file_prompts(path: Path) -> Iterator[str]:
    """Yield the prompts of a JSON-lines file: field prompt, question, text or instruction.

    Raises:
        ConfigError: the file cannot be read, or a line has none of these fields.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read prompts from {str(path)!r}: {error}") from None
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield _prompt(line, f"{path}, line {number}")


def _prompt(line: str, where: str) -> str:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise ConfigError(f"{where} is not JSON: {error}; give one JSON object a line") from None
    for name in _FIELDS if isinstance(record, dict) else ():
        value = record.get(name)
        if isinstance(value, str) and value.strip():
            return value
    raise ConfigError(f"{where} has no text in any field of {', '.join(_FIELDS)}; name one so")


def _source_of(node: ast.FunctionDef, lines: list[bytes]) -> str:
    """Return what `ast.get_source_segment` does, which splits the whole file at every call."""
    assert node.end_lineno is not None
    own = lines[node.lineno - 1 : node.end_lineno]
    own[-1] = own[-1][: node.end_col_offset]
    own[0] = own[0][node.col_offset :]
    return b"\n".join(own).decode()


def _request(picker: random.Random, node: ast.FunctionDef, docstring: str, source: str) -> str:
    """Return one of the requests that can be made of a function, at random."""
    head_len = source.find(docstring[:20])
    end = source.find('"""', head_len) if head_len >= 0 else -1
    head = source[: end + 3] if 0 < end < _LONGEST_DOCSTRING else source[:_LONGEST_DOCSTRING]
    return picker.choice(_REQUESTS).format(
        name=node.name,
        arguments=ast.unparse(node.args),
        docstring=docstring[:_LONGEST_DOCSTRING],
        head=head,
        source=source[:_LONGEST_SOURCE],
    )
