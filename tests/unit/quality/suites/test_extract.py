"""Programs out of answers, each shape one that instruct models really write."""

from __future__ import annotations

import pytest

from leeway.quality.suites.extract import extract_program

FENCE = "```"
PY = f"{FENCE}python\n"
SOLUTION = "def add(a, b):\n    return a + b\n"
PROMPT = (
    "from typing import List\n\n\n"
    "def double(x):\n    return 2 * x\n\n\n"
    "def total(xs: List[int]) -> int:\n"
    '    """Sum of all doubles.\n    >>> total([1])\n    2\n    """\n'
)


def value(program: str, call: str) -> object:
    """Run a program that this file itself wrote, and evaluate a call."""
    scope: dict[str, object] = {"__name__": "solution"}
    exec(program, scope)
    return eval(call, scope)


SHAPES = {
    "only the program": SOLUTION,
    "fence with tag": f"{PY}{SOLUTION}{FENCE}",
    "fence without tag": f"{FENCE}\n{SOLUTION}{FENCE}",
    "tag on its own line": f"{FENCE}\npython\n{SOLUTION}{FENCE}",
    "tag on its own line after a blank one": f"{FENCE}\n\nPython\n{SOLUTION}{FENCE}",
    "tag in capitals with a space": f"{FENCE} Python\n{SOLUTION}{FENCE}\n",
    "code on the fence's line": f"{FENCE}python def add(a, b):\n    return a + b\n{FENCE}",
    "code right behind the fence": f"{FENCE}def add(a, b):\n    return a + b\n{FENCE}",
    "fence behind a sentence": f"Here it is: {PY}{SOLUTION}{FENCE} as you see.",
    "closing fence behind code": f"{PY}def add(a, b):\n    return a + b{FENCE}",
    "tildes": f"~~~python\n{SOLUTION}~~~",
    "four backticks": f"{FENCE}`python\n{SOLUTION}{FENCE}`",
    "unclosed fence": f"{PY}{SOLUTION}",
    "prose around": f"Sure! Use `add`:\n\n{PY}{SOLUTION}{FENCE}\n\nIt adds `a` to `b`.",
    "indented in a list": f"1. First:\n   {PY}   def add(a, b):\n       return a + b\n   {FENCE}",
    "carriage returns": f"{PY}{SOLUTION}{FENCE}".replace("\n", "\r\n"),
    "tabs": f"{PY}def add(a, b):\n\treturn a + b\n{FENCE}",
    "prose around no fence": f"Here is the function:\n\n{SOLUTION}\nIt returns the sum of a and b.",
    "thoughts before": f"<think>\n{PY}def add(a, b):\n    return 0\n{FENCE}\n</think>\n"
    f"{PY}{SOLUTION}{FENCE}",
    "last line cut": f"{PY}{SOLUTION}\nprint(add(1, 2",
    "cut in a later string": f'{PY}{SOLUTION}\ntext = """ and so',
    "tests behind": f"{PY}{SOLUTION}\nassert add(1, 1) == 3\nprint(add(input(), 1))\n{FENCE}",
    "main guard behind": f"{PY}{SOLUTION}\nif __name__ == '__main__':\n    1 / 0\n{FENCE}",
    "example by a name of its own": f"{PY}{SOLUTION}\nresult = add(None, 1)\n{FENCE}",
    "loop of examples": f"{PY}{SOLUTION}\nfor x in [(1, None)]:\n    print(add(*x))\n{FENCE}",
    "example block first": f"{PY}add(1, 2)\n{FENCE}\n{PY}{SOLUTION}{FENCE}",
    "doctest block behind": f"{PY}{SOLUTION}{FENCE}\n{FENCE}\n>>> add(1, 2)\n3\n{FENCE}",
    "shell block first": f"{FENCE}bash\npip install add\n{FENCE}\n{PY}{SOLUTION}{FENCE}",
    "other language first": f"{FENCE}javascript\ndef add(a, b): return 0\n{FENCE}\n"
    f"{PY}{SOLUTION}{FENCE}",
    "question repeated first": f'{PY}def add(a, b):\n    """Sum."""\n{FENCE}\n'
    f"{PY}{SOLUTION}{FENCE}",
    "variant behind": f"{PY}{SOLUTION}{FENCE}\nOr:\n"
    f"{PY}def add(a, b):\n    return sum([a, b, 1])\n{FENCE}",
    "helper in an earlier block": f"{PY}def plus(a, b):\n    return a + b\n{FENCE}\nThen\n"
    f"{PY}def add(a, b):\n    return plus(a, b)\n{FENCE}",
    "helper in a later block": f"{PY}def add(a, b):\n    return plus(a, b)\n{FENCE}\nwith\n"
    f"{PY}import operator\n\nplus = operator.add\nprint(add(1, None))\n{FENCE}",
    "local name of a later example": f"{PY}def add(a, b):\n    result = a + b\n"
    f"    return result\n{FENCE}\n{PY}result = add(1, None)\n{FENCE}",
    "lambda": f"{PY}add = lambda a, b: a + b\n{FENCE}",
    "future import": f"{PY}from __future__ import annotations\n{SOLUTION}{FENCE}",
    "guarded import": f"{PY}try:\n    import nothing_like_it as op\nexcept ImportError:\n"
    f"    import operator as op\n\ndef add(a, b):\n    return op.add(a, b)\n{FENCE}",
    "table filled at top level": f"{PY}table = {{}}\nfor x in range(9):\n    table[x] = x\n\n"
    f"def add(a, b):\n    return table[a] + table[b]\n{FENCE}",
    "list appended at top level": f"{PY}plus = []\nplus.append(lambda a, b: a + b)\n\n"
    f"def add(a, b):\n    return plus[0](a, b)\n{FENCE}",
    "decorated": f"{PY}from functools import lru_cache\n\n@lru_cache\n{SOLUTION}{FENCE}",
    "class beside": f"{PY}class Pair:\n    def __init__(self, *xs):\n        self.xs = xs\n\n"
    f"def add(a, b):\n    return sum(Pair(a, b).xs)\n{FENCE}",
    "recursion limit": f"{PY}import sys\nsys.setrecursionlimit(5000)\n{SOLUTION}{FENCE}",
    "escape in a string": f"{PY}import re\n\ndef add(a, b):\n"
    f"    return a + b if re.match('\\d', '1') else 0\n{FENCE}",
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.filterwarnings("ignore:invalid escape:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:invalid escape:SyntaxWarning")
def test_the_function_comes_out_alone(name):
    program = extract_program(SHAPES[name], "add")
    assert value(program, "add(1, 2)") == 3
    assert "print" not in program and "assert" not in program
    assert extract_program(program, "add") == program


BODIES = {
    "body as it goes on": "    out = 0\n    for x in xs:\n        out += double(x)\n"
    "    return out\n",
    "first indentation lost": "out = 0\n    for x in xs:\n        out += double(x)\n    return out",
    "all indentation lost": "out = 0\nfor x in xs:\n    out += double(x)\nreturn out",
    "body and another function": "    return sum(map(double, xs))\n\n\ndef check():\n    1 / 0\n",
    "body and prose": "    return sum(map(double, xs))\n\nThis sums all doubles of the list.\n",
    "body cut": "    out = sum(map(double, xs))\n    return out\n    print('never",
    "body in a block": f"Add this:\n{PY}    return sum(map(double, xs))\n{FENCE}\nDone.",
    "bare body in a block": f"{FENCE}\npython\nreturn sum(map(double, xs))\n{FENCE}",
    "function without its imports": f"{PY}def total(xs: List[int]) -> int:\n"
    f"    return sum(double(x) for x in xs)\n{FENCE}",
    "whole file": f"{PY}{PROMPT}    return sum(map(double, xs))\n{FENCE}",
    "whole file unfenced": f"{PROMPT}    return sum(map(double, xs))\n\nprint(total([1]))\n",
}


@pytest.mark.parametrize("name", BODIES)
def test_what_goes_on_with_the_prompt_is_put_behind_it(name):
    program = extract_program(BODIES[name], "total", PROMPT)
    assert value(program, "total([1, 2])") == 6
    assert "print" not in program and "1 / 0" not in program


def test_own_helper_wins_over_the_prompts():
    own = "def double(x):\n    return 0\n\ndef total(xs):\n    return sum(map(double, xs))\n"
    assert value(extract_program(own, "total", PROMPT), "total([1, 2])") == 0


@pytest.mark.parametrize(
    "answer",
    ["", "I cannot do that.", f"{FENCE}bash\nls\n{FENCE}"],
    ids=["empty", "prose", "shell"],
)
def test_no_code_is_no_program(answer):
    assert extract_program(answer, "add") == ""


def test_another_function_does_not_count():
    program = extract_program(f"{PY}def plus(a, b):\n    return a + b\n{FENCE}", "add")
    with pytest.raises(NameError):
        value(program, "add(1, 2)")


def test_a_function_cut_in_its_body_keeps_what_parses():
    answer = f"{PY}def add(a, b):\n    total = a + b\n    if total > ("
    assert value(extract_program(answer, "add"), "add(1, 2)") is None


@pytest.mark.parametrize("depth", [300, 600, 3000])
def test_deep_nesting_does_no_harm(depth):
    chain = " + ".join(["one"] * depth)
    answer = f"{PY}one = 1\n\ndef add(a, b):\n    return a + b + ({chain})\n{FENCE}"
    is_parsed = depth < 1000  # Python's own parser gives up beyond
    assert extract_program(answer, "add").startswith("one = 1") or not is_parsed
    for text in ("(" * depth, "x = " + "[" * depth, "not " * depth + "x", "a" + ".b" * depth):
        extract_program(f"{PY}{SOLUTION}\nprint({text})\n{FENCE}", "add")
