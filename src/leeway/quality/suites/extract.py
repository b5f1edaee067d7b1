"""The program in an answer that was asked for a Python function.

In: an answer as it came: prose, fences, several blocks, cut ends. Out: source that defines the
function if the answer does, without example calls and tests. Executes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from leeway.quality.suites.fences import Block, find_blocks
from leeway.quality.suites.program_parts import (
    defined_names,
    defines,
    is_stub,
    needed_part,
    parse,
    used_names,
)

_THOUGHT_END = "</think>"
_CODE_LINE = re.compile(r"^(from\s+\S+\s+import|import\s|def\s|async\s+def\s|class\s|@\w)")
_INDENT = "    "


def extract_program(
    answer: str, name: str, prompt: str = "", also_needed: Sequence[str] = ()
) -> str:
    """Return the program that defines a function; "" if the answer holds no code at all.

    Args:
        answer: the model's text, or just a program.
        name: of the function asked for.
        prompt: source whose last function the answer may go on with, from its body's first line;
            its imports and earlier functions are put before what it lacks.
        also_needed: further names to keep, where the answer defines them.
    """
    text = answer.rpartition(_THOUGHT_END)[2].replace("\r\n", "\n").replace("\r", "\n")
    blocks = [block for block in find_blocks(text) if block.may_be_python]
    chosen = _defining(blocks, name)
    if chosen is None:
        candidates = [block.text for block in blocks] or [text]
        found = _continued(candidates, name, prompt) or _without_fence(
            text, name, prompt, also_needed
        )
        return found or "".join(block.text + "\n" for block in blocks[:1])
    program = _joined(chosen, [one.text for one in blocks], name, also_needed)
    return _with_preamble(program, name, prompt)


def _defining(blocks: list[Block], name: str) -> str | None:
    """Return the source of the first block that defines the name, cut to what parses.

    A block that only repeats the question, with nothing in the function, comes last.
    """
    sources = [_longest_program(block.text, name) for block in blocks]
    found = [source for source in sources if source is not None]
    return next((one for one in found if not _is_stub(one, name)), None) or next(iter(found), None)


def _longest_program(text: str, name: str) -> str | None:
    """Return the most lines from the top that are a program with the name; None if none are."""
    lines = text.splitlines()
    mention = re.compile(rf"\b{re.escape(name)}\b")
    first = next((number for number, line in enumerate(lines) if mention.search(line)), None)
    if first is None:
        return None
    for end in range(len(lines), first, -1):
        source = "\n".join(lines[:end]) + "\n"
        if defines(parse(source), name):
            return source
    return None


def _is_stub(source: str, name: str) -> bool:
    module = parse(source)
    return module is not None and is_stub(module, name)


def _joined(program: str, others: list[str], name: str, also_needed: Sequence[str]) -> str:
    """Return a program with the definitions of other blocks that it uses before it."""
    module = parse(program)
    assert module is not None
    part = needed_part(program, module, name, *also_needed)
    helpers: list[str] = []
    for other in others:
        parsed = parse(other)
        if parsed is None or defines(parsed, name):
            continue
        current = parse("".join(helpers) + part)
        assert current is not None
        wanted = used_names(current) | {*also_needed}
        lacking = (wanted - defined_names(current)) & defined_names(parsed)
        helpers += [needed_part(other, parsed, one) for one in sorted(lacking)]
    return "".join(helpers) + part


def _with_preamble(program: str, name: str, prompt: str) -> str:
    """Return a program behind those imports and functions of the prompt that it lacks."""
    module = parse(prompt)
    if module is None:
        return program
    own = parse(program)
    assert own is not None
    missing = (used_names(own) - defined_names(own)) & defined_names(module) - {name}
    before = "".join(needed_part(prompt, module, one) for one in sorted(missing))
    if not before or "from __future__" not in program:
        return before + program
    return program


def _continued(candidates: list[str], name: str, prompt: str) -> str | None:
    """Return the prompt with a function body behind it, whatever became of its indentation."""
    if not prompt:
        return None
    for text in candidates:
        body = text.strip("\n")
        if not body.strip() or _starts_code(body):
            continue
        indented = "\n".join(_INDENT + line if line.strip() else line for line in body.split("\n"))
        shapes = (body,) if body[0] in " \t" else (_INDENT + body, indented)
        found = [one for one in (_body_program(prompt, shape, name) for shape in shapes) if one]
        if found:
            return max(found, key=len)
    return None


def _body_program(prompt: str, body: str, name: str) -> str | None:
    """Return prompt and body with the last lines cut that do not parse, or None if all must go."""
    head = prompt if prompt.endswith("\n") else prompt + "\n"
    lines = body.split("\n")
    for end in range(len(lines), 0, -1):
        if not lines[end - 1].strip():
            continue
        source = head + "\n".join(lines[:end]) + "\n"
        module = parse(source)
        if module is not None and defines(module, name):
            return needed_part(source, module, name)
    return None


def _starts_code(text: str) -> bool:
    return bool(_CODE_LINE.match(text))


def _without_fence(text: str, name: str, prompt: str, also_needed: Sequence[str]) -> str:
    """Return the program in text without fences, from a line of code; "" if there is none."""
    lines = text.strip("\n").splitlines()
    is_program = defines(parse(text), name)
    starts = [number for number, line in enumerate(lines) if _starts_code(line)]
    for start in [0] if is_program else starts:
        source = _longest_program("\n".join(lines[start:]), name)
        if source is not None:
            return _with_preamble(_joined(source, [], name, also_needed), name, prompt)
    return ""
