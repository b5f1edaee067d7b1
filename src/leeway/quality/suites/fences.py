"""Fenced blocks of a Markdown answer, as models write them rather than as the standard says.

In: an answer. Out: its blocks in order, without fences and language tags. Knows no language.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

_OPEN = re.compile(r"^(?P<before>.*?)(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>[^`]*)$")
_TAG = re.compile(r"^[\w+#.-]+")
_PYTHON = frozenset({"python", "python3", "py", "python2", "py3", "ipython", "pycon"})
_CODE_START = re.compile(r"^(def|class|import|from|async|@)\b|^@")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block.

    Attributes:
        tag: its language in small letters; empty when none is named.
        is_closed: whether its end is there.
    """

    tag: str
    text: str
    is_closed: bool

    @property
    def may_be_python(self) -> bool:
        """Whether nothing says that it is another language."""
        return not self.tag or self.tag in _PYTHON


def find_blocks(answer: str) -> list[Block]:
    """Return the fenced blocks of an answer, the last one perhaps unclosed."""
    blocks: list[Block] = []
    lines: list[str] = []
    fence = tag = ""
    for line in answer.splitlines():
        if not fence:
            found = _OPEN.match(line)
            if found is not None:
                fence = found["fence"]
                tag, rest = _split_info(found["info"])
                lines = [rest] if rest else []
            continue
        before = _before_end(line, fence)
        if before is None:
            lines.append(line)
            continue
        blocks.append(_block(tag, [*lines, before] if before.strip() else lines, is_closed=True))
        fence = ""
    if fence:
        blocks.append(_block(tag, lines, is_closed=False))
    return [block for block in blocks if block.text.strip()]


def _split_info(info: str) -> tuple[str, str]:
    """Return (tag, code on the fence's own line), either of them perhaps empty."""
    info = info.strip()
    found = _TAG.match(info)
    if found is None or _CODE_START.match(info):
        return "", info if _CODE_START.match(info) else ""
    rest = info[found.end() :].strip()
    return found.group().lower(), rest if _CODE_START.match(rest) else ""


def _before_end(line: str, fence: str) -> str | None:
    """Return what stands before a closing fence on this line; None if there is no such fence."""
    stripped = line.rstrip()
    if not stripped.endswith(fence) or stripped.strip(fence[0]) != stripped[: -len(fence)]:
        is_bare = stripped.strip() and not stripped.strip().strip(fence[0])
        return "" if is_bare and len(stripped.strip()) >= len(fence) else None
    return stripped[: -len(fence)]


def _block(tag: str, lines: list[str], *, is_closed: bool) -> Block:
    first = next((number for number, line in enumerate(lines) if line.strip()), None)
    if first is not None and not tag and lines[first].strip().lower() in _PYTHON:
        tag, lines = lines[first].strip().lower(), lines[first + 1 :]
    return Block(tag, textwrap.dedent("\n".join(lines)), is_closed)
