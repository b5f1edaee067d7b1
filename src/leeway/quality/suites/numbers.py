"""The number that an answer to a word problem ends in.

In: an answer as it came. Out: a fraction. Knows no question.
"""

from __future__ import annotations

import re
from fractions import Fraction

_NUMBER = re.compile(
    r"(?P<sign>(?<![\w)\]}.,%])[-−–]\s?)?[$€£¥₹]?\s?(?P<minus>(?<=[$€£¥₹])[-−])?"
    r"(?P<whole>\d{1,3}(?:,\d{3})+(?!\d)|\d+)?(?P<part>\.\d+)?(?:\s*/\s*(?P<below>\d+))?"
)
_MARKED = re.compile(r"####[ \t]*(?P<text>[^\n]*)")
_BOX = re.compile(r"\\boxed\s*\{|\\fbox\s*\{")
_SAID = re.compile(r"\banswer(?:\s+is)?\s*[:=]?\s*(?P<text>[^\n]*)", re.IGNORECASE)
_LATEX = re.compile(r"\\(?:text|mathrm|mbox|textbf)\s*\{[^{}]*\}|\\[,;:! ]|\\(?=[$%])")


def final_number(answer: str) -> Fraction | None:
    r"""Return the number of the last "#### N", else \boxed{N}, else "answer is N", else the last.

    A place that holds no number is passed over.
    """
    text = _LATEX.sub("", answer.replace("{,}", ",").replace("\\!", "").replace("**", ""))
    for found in reversed(list(_MARKED.finditer(text))):
        value = _first_of_result(found["text"])
        if value is not None:
            return value
    for inside in reversed(_boxed(text)):
        value = _last(inside.rpartition("=")[2])
        if value is not None:
            return value
    for found in reversed(list(_SAID.finditer(text))):
        value = _first_of_result(found["text"])
        if value is not None:
            return value
    return _last(text)


def _first_of_result(text: str) -> Fraction | None:
    """Return the first number behind the last equals sign."""
    found = _all(text.rpartition("=")[2]) or _all(text)
    return found[0] if found else None


def _last(text: str) -> Fraction | None:
    found = _all(text)
    return found[-1] if found else None


def _all(text: str) -> list[Fraction]:
    found = []
    for match in _NUMBER.finditer(text):
        whole, part = match["whole"], match["part"]
        if whole is None and part is None:
            continue
        value = Fraction((whole or "0").replace(",", "") + (part or ""))
        if match["below"] and int(match["below"]):
            value /= int(match["below"])
        found.append(-value if match["sign"] or match["minus"] else value)
    return found


def _boxed(text: str) -> list[str]:
    """Return what stands in each box, braces balanced; an unclosed one goes to the end."""
    found = []
    for start in _BOX.finditer(text):
        depth, end = 1, start.end()
        while end < len(text) and depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        found.append(text[start.end() : end - 1 if not depth else end])
    return found
