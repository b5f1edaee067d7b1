"""HumanEval and HumanEval+: complete a Python function from its signature and docstring.

Source: Chen et al. 2021, arXiv 2107.03374; Liu et al. 2023, arXiv 2305.01210 (the plus tests, with
the base ones among them). Deviates: the imports and earlier functions of a prompt are put before an
answer that lacks them, in both suites.
"""

from __future__ import annotations

import re

from leeway.quality.suites.code_suite import CodeSuite, Function
from leeway.quality.suites.data import DataFile, Record
from leeway.quality.suites.program_parts import defined_names, needed_part, parse

PROMPT = (
    "Complete the following Python function. Answer with one Python code block that holds the "
    "whole function with its imports and any helper functions.\n\n```python\n{beginning}\n```"
)
_ROOTS_TASK = "HumanEval/32"
_ROOTS_BROKEN = "_poly(*candidate(*inp), inp)"
_SLOW_TASKS = {"HumanEval/15", "HumanEval/83", "HumanEval/130", "HumanEval/139"}
"""Whose plus tests keep the authors' own solution busy for 2 to 7 seconds."""

_ROOTS_RIGHT = "abs(_poly(*inp, candidate(*inp)))"


def functions(records: list[Record]) -> list[Function]:
    """Return what the records of either file ask for."""
    return [_function(record) for record in records]


def _function(record: Record) -> Function:
    beginning, name = str(record["prompt"]), str(record["entry_point"])
    tests = str(record["test"])
    if record["task_id"] == _ROOTS_TASK:
        # The plus file puts polynomial and root the wrong way round: nothing could pass it.
        tests = tests.replace(_ROOTS_BROKEN, _ROOTS_RIGHT)
    return Function(
        task_id=str(record["task_id"]),
        name=name,
        prompt=PROMPT.format(beginning=beginning.strip("\n")),
        beginning=beginning,
        tests=f"{_helpers(beginning, name, tests)}{tests}\n\ncheck({name})\n",
        solution=beginning + str(record["canonical_solution"]),
        patience=5.0 if record["task_id"] in _SLOW_TASKS else 1.0,
    )


def _helpers(beginning: str, name: str, tests: str) -> str:
    """Return the prompt's other functions that the tests call, whatever an answer made of them."""
    prompt = parse(beginning)
    others = set() if prompt is None else defined_names(prompt) - {name}
    called = sorted(one for one in others if re.search(rf"\b{re.escape(one)}\(", tests))
    return "" if prompt is None else "".join(needed_part(beginning, prompt, x) for x in called)


HUMANEVAL = CodeSuite(
    name="humaneval",
    licence="MIT",
    file=DataFile(
        filename="HumanEval.jsonl",
        url="https://github.com/openai/human-eval/raw/master/data/HumanEval.jsonl.gz",
        sha256="1d49078ba3e2b196b9344535bef34a43021f038fad9561d6ee7c53450609a6a2",
        package=("human_eval", "data/HumanEval.jsonl.gz", "human-eval"),
    ),
    functions=functions,
)
HUMANEVAL_PLUS = CodeSuite(
    name="humaneval_plus",
    licence="Apache-2.0",
    file=DataFile(
        filename="HumanEvalPlus-OriginFmt.jsonl",
        url="https://github.com/evalplus/humanevalplus_release/releases/download/v0.1.10/"
        "HumanEvalPlus-OriginFmt.jsonl.gz",
        sha256="04228b8a570ff7c346c740b91f0c6a0b323f86a26e903db8477c6f2d10f38819",
    ),
    functions=functions,
)
