"""Scorers on records of the real files' shape, against right and wrong answers made by hand.

`LEEWAY_TEST_DATA` names a folder with the real evaluation sets: then a sample of the authors' own
solutions must pass, and none of them with a fault in it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from leeway.core.errors import ConfigError, FetchError, SandboxError
from leeway.quality.sandbox import Limits, open_sandbox
from leeway.quality.suites.registry import suite

HUMANEVAL = {
    "task_id": "HumanEval/1000",
    "prompt": "from typing import List\n\n\ndef shift(x: int) -> int:\n    return x + 1\n\n\n"
    'def shifted(xs: List[int]) -> List[int]:\n    """ Every number shifted.\n    """\n',
    "canonical_solution": "    return [shift(x) for x in xs]\n",
    "entry_point": "shifted",
    "test": "def check(candidate):\n    assert candidate([1, 2]) == [shift(1), 3]\n"
    "    assert candidate([]) == []\n",
}
ROOTS = {
    "task_id": "HumanEval/32",
    "prompt": "import math\n\n\ndef find_zero(xs: list):\n    '''A root.'''\n",
    "canonical_solution": "    return -xs[0] / xs[1]\n",
    "entry_point": "find_zero",
    "test": "import math\n\ndef _poly(xs: list, x: float):\n"
    "    return sum([coeff * math.pow(x, i) for i, coeff in enumerate(xs)])\n\n"
    "def check(candidate):\n    inputs = [[[1, 2]], [[-4, 2]]]\n    results = [-0.5, 2.0]\n"
    "    for i, (inp, exp) in enumerate(zip(inputs, results)):\n"
    "        assert _poly(*candidate(*inp), inp) <= 0.0001\n",
}
MBPP = {
    "task_id": 11,
    "text": "Write a function to sum a tree.",
    "code": "class Node:\r\n  def __init__(self, x, *below):\r\n"
    "    self.x, self.below = x, below\r\n"
    "def tree_sum(node):\r\n  return node.x + sum(map(tree_sum, node.below))",
    "test_setup_code": "root = Node(1, Node(2), Node(3))",
    "test_list": ["assert tree_sum(root) == 6", "assert tree_sum(Node(4)) == 4"],
    "challenge_test_list": [],
}
MBPP_PLUS = {
    "task_id": 2,
    "code": "\ndef halves(xs):\n  return [x / 2 for x in xs]\n",
    "prompt": "Write a function to halve numbers.",
    "source_file": "x",
    "test_imports": ["import math"],
    "test_list": ["assert halves([1]) == [0.5]", "assert halves([]) == []"],
    "test": """import numpy as np

def is_floats(xs):
    return all(isinstance(x, float) for x in xs)

def assertion(out, exp, atol):
    if atol == 0 and is_floats(exp):
        atol = 1e-6
    if out != exp and atol != 0:
        assert np.allclose(out, exp, rtol=1e-07, atol=atol)
    else:
        assert out == exp

inputs = [[[1]], [[3, 5]], [[]]]
results = [[0.5], [1.5, 2.5], []]
for i, (inp, exp) in enumerate(zip(inputs, results)):
    assertion(halves(*inp), exp, 0)
""",
}
GSM8K = {"question": "What is 3 + 4? ", "answer": "3 + 4 = <<3+4=7>>7\n#### 7"}
FILES = {
    "humaneval": ("HumanEval.jsonl", [HUMANEVAL]),
    "humaneval_plus": ("HumanEvalPlus-OriginFmt.jsonl", [ROOTS]),
    "mbpp": ("mbpp.jsonl", [{**MBPP, "task_id": 10}, MBPP, {**MBPP, "task_id": 511}]),
    "mbpp_plus": ("MbppPlus-OriginFmt.jsonl", [MBPP_PLUS]),
    "gsm8k": ("gsm8k_test.jsonl", [GSM8K]),
}
CODE = {
    "humaneval": [
        ("    return [shift(x) for x in xs]\n", ""),
        ("```python\ndef shifted(xs):\n    return [shift(x) for x in xs]\n```", ""),
        (
            "```python\ndef shift(x):\n    return 0\n\ndef shifted(xs):\n    return xs\n```",
            "Assert",
        ),
        ("    return [x + 1 for x in xs][:1]\n", "AssertionError"),
        ("I would rather not.", "no code in the answer"),
        ("```python\ndef other(xs):\n    return xs\n```", "NameError"),
    ],
    "humaneval_plus": [
        ("    return -xs[0] / xs[1]\n", ""),
        ("    return -xs[0] / xs[1] + 1e-5\n", ""),
        ("    return xs[0] / xs[1]\n", "AssertionError"),
    ],
    "mbpp": [
        (f"```python\n{MBPP['code']}\n```", ""),
        ("```python\ndef tree_sum(node):\n    return 6\n```", "NameError: name 'Node'"),
        (MBPP["code"].replace("node.x +", "1 +"), "AssertionError"),
    ],
    "mbpp_plus": [
        ("```\npython\ndef halves(xs):\n    return [x * 0.5 for x in xs]\n```", ""),
        ("def halves(xs):\n    return [x * 0.5 + 1e-8 for x in xs]\n", ""),
        ("def halves(xs):\n    return [x * 0.5 + 1e-4 for x in xs]\n", "AssertionError"),
        ("def halves(xs):\n    return [0.5] * len(xs)\n", "AssertionError"),
    ],
}
FLAT = [
    pytest.param(name, *case, id=f"{name}-{number}")
    for name, cases in CODE.items()
    for number, case in enumerate(cases)
]


@pytest.fixture(name="sandbox", scope="module")
def _sandbox():
    """Bubblewrap where it is; the programs of this file are this file's own."""
    return open_sandbox(allow_unsandboxed=True, limits=Limits(cpu_s=10.0))


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for name, records in FILES.values():
        (folder / name).write_text("".join(json.dumps(one) + "\n" for one in records))
    return folder


def only_task(name, folder):
    (task,) = suite(name).load(folder, folder, offline=True).tasks
    return task


@pytest.mark.parametrize(("name", "completion", "detail"), FLAT)
def test_programs_are_judged_by_the_authors_tests(name, completion, detail, folder, sandbox):
    score = suite(name).score(only_task(name, folder), completion, sandbox)
    assert score.is_correct == (not detail)
    assert score.detail.startswith(detail), score.detail
    assert not score.parts


@pytest.mark.parametrize("name", CODE)
def test_the_authors_solution_is_kept_beside_the_task(name, folder, sandbox):
    task = only_task(name, folder)
    assert suite(name).score(task, task.reference["solution"], sandbox).is_correct
    with pytest.raises(SandboxError, match=f"suite {name} runs programs"):
        suite(name).score(task, "x", None)


def test_prompts_ask_for_the_function_by_name(folder):
    tasks = {name: only_task(name, folder) for name in FILES}
    assert HUMANEVAL["prompt"].strip() in tasks["humaneval"].prompt
    assert tasks["mbpp"].task_id == "Mbpp/11" and tasks["mbpp_plus"].task_id == "Mbpp/2"
    assert all(one in tasks["mbpp"].prompt for one in MBPP["test_list"])
    shown, hidden = MBPP_PLUS["test_list"]
    assert shown in tasks["mbpp_plus"].prompt and hidden not in tasks["mbpp_plus"].prompt
    assert tasks["gsm8k"].prompt.startswith("What is 3 + 4?\n")


@pytest.mark.parametrize(
    ("completion", "is_correct", "extracted", "detail"),
    [
        ("3 + 4 = 7\n#### 7", True, "7", ""),
        ("so \\boxed{7.0}", True, "7", ""),
        ("#### 8", False, "8", "8, not 7"),
        ("#### 7.5", False, "15/2", "15/2, not 7"),
        ("seven", False, "", "no number in the answer"),
    ],
)
def test_numbers_are_compared_as_numbers(completion, is_correct, extracted, detail, folder):
    score = suite("gsm8k").score(only_task("gsm8k", folder), completion, None)
    assert (score.is_correct, score.extracted, score.detail) == (is_correct, extracted, detail)


SIZES = {"humaneval": 164, "humaneval_plus": 164, "mbpp": 500, "mbpp_plus": 378}


def _real(name):
    folder = os.environ.get("LEEWAY_TEST_DATA")
    if not folder:
        pytest.skip("LEEWAY_TEST_DATA names no folder with the real evaluation sets")
    try:
        return suite(name).load(Path(folder), Path(folder) / "nothing", offline=True)
    except (ConfigError, FetchError) as error:
        pytest.skip(f"{name}: {error}")


@pytest.mark.parametrize("name", SIZES)
def test_the_authors_solutions_pass_and_empty_ones_do_not(name, sandbox):
    real = _real(name)
    assert real.is_known and len(real.tasks) == SIZES[name]
    quick = [task for task in real.tasks if task.reference["patience"] == 1]
    for task in quick[:: len(quick) // 15][:15]:
        right = f"Here it is:\n```python\n{task.reference['solution']}\n```"
        assert suite(name).score(task, right, sandbox).detail == "", task.task_id
        wrong = f"```python\ndef {task.reference['name']}(*xs):\n    return None\n```"
        assert not suite(name).score(task, wrong, sandbox).is_correct, task.task_id


@pytest.mark.parametrize(("name", "num_tasks"), [("gsm8k", 1319), ("ifeval", 541)])
def test_other_real_sets_load_whole(name, num_tasks):
    real = _real(name)
    assert real.is_known and len(real.tasks) == num_tasks
    assert len({task.task_id for task in real.tasks}) == num_tasks
