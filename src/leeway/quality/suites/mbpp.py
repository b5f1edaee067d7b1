"""MBPP and MBPP+: write a Python function from one sentence and examples.

MBPP's 500 test tasks (ids 11 to 510) show all of their three asserts, as its authors' prompt does;
MBPP+ shows the first. Source: Austin et al. 2021, arXiv 2108.07732; Liu et al. 2023, arXiv
2305.01210 (the plus tests, with the base ones among them).
"""

from __future__ import annotations

import ast

from leeway.quality.suites.code_suite import CodeSuite, Function
from leeway.quality.suites.data import DataFile, Record
from leeway.quality.suites.program_parts import parse, used_names

PROMPT = (
    "{text}\n\nThe function must pass {what}:\n\n```python\n{asserts}\n```\n\n"
    "Answer with one Python code block that holds the whole function with its imports and any "
    "helper functions."
)
FIRST_ID, LAST_ID = 11, 510
_PATIENCE = {123: 5.0, 271: 5.0, 392: 5.0, 599: 12.0}
"""By task: tests that keep the authors' own solution busy for 2 to 19 seconds."""


def functions(records: list[Record]) -> list[Function]:
    """Return what the test tasks of MBPP ask for."""
    return [
        _function(one, str(one["text"]), [*one["test_list"]], _asserts(one))
        for one in records
        if FIRST_ID <= int(one["task_id"]) <= LAST_ID
    ]


def plus_functions(records: list[Record]) -> list[Function]:
    """Return what the tasks of MBPP+ ask for."""
    return [
        _function(
            one,
            str(one["prompt"]),
            [one["test_list"][0]],
            "\n".join([*one["test_imports"], str(one["test"])]),
        )
        for one in records
    ]


def _asserts(record: Record) -> str:
    return "\n".join([str(record["test_setup_code"]), *record["test_list"]]) + "\n"


def _function(record: Record, text: str, shown: list[str], tests: str) -> Function:
    code = str(record["code"]).replace("\r\n", "\n")
    prompt = PROMPT.format(
        text=text.strip(),
        what="these asserts" if len(shown) > 1 else "asserts such as this one",
        asserts="\n".join(one.strip() for one in shown),
    )
    name = _name(code, str(record["test_list"][0]))
    setup = parse(str(record.get("test_setup_code", "")))
    also = () if setup is None else tuple(sorted(used_names(setup)))
    patience = _PATIENCE.get(int(record["task_id"]), 1.0)
    return Function(f"Mbpp/{record['task_id']}", name, prompt, "", tests, code, also, patience)


def _name(code: str, first_assert: str) -> str:
    """Return the function of the reference that an assert calls.

    Raises:
        ValueError: it calls none.
    """
    module = parse(code)
    functions = [] if module is None else module.body
    defined = {one.name for one in functions if isinstance(one, ast.FunctionDef)}
    for node in ast.walk(ast.parse(first_assert.strip())):
        if isinstance(node, ast.Name) and node.id in defined:
            return node.id
    raise ValueError(f"no function of the reference in {first_assert!r}")


MBPP = CodeSuite(
    name="mbpp",
    licence="CC-BY-4.0",
    file=DataFile(
        filename="mbpp.jsonl",
        url="https://raw.githubusercontent.com/google-research/google-research/master/mbpp/"
        "mbpp.jsonl",
        sha256="ccf64ceae9c5403bf50a044cb6d505bfd2a2963ee58338ba268fd65beab92a9f",
    ),
    functions=functions,
)
MBPP_PLUS = CodeSuite(
    name="mbpp_plus",
    licence="Apache-2.0",
    file=DataFile(
        filename="MbppPlus-OriginFmt.jsonl",
        url="https://github.com/evalplus/mbppplus_release/releases/download/v0.2.0/"
        "MbppPlus-OriginFmt.jsonl.gz",
        sha256="132d01c96df6b4b0fe0cbb8414092fe62c51b873b160d1ec8fc2ded28484865a",
    ),
    functions=plus_functions,
)
