"""Prompts: of the standard library and of files, without doubles and evaluation prompts."""

import ast
import bisect
import inspect
import random
import textwrap

import pytest
from tests.support.evaluation_quotes import KNOWN

from leeway.core.errors import ConfigError
from leeway.heads.contamination import EvaluationPrompts
from leeway.heads.prompts import _source_of, file_prompts, gather, stdlib_prompts


@pytest.fixture(name="stdlib", scope="module")
def _stdlib():
    return list(stdlib_prompts(seed=0))


def test_the_standard_library_asks_about_its_functions(stdlib):
    assert len(stdlib) > 3000
    kinds = ("Write a Python", "Complete this", "Explain what", "Write unit tests", "Rewrite this")
    counts = [sum(prompt.startswith(kind) for prompt in stdlib) for kind in kinds]
    assert sum(counts) == len(stdlib) and min(counts) > len(stdlib) / 8
    assert max(map(len, stdlib)) < 1500
    bisect_right = next(
        one for one in stdlib if "def bisect_right(" in one or "`bisect_right(" in one
    )
    assert "Return the index where to insert item x in list a" in bisect_right


def test_the_same_seed_asks_the_same(stdlib, monkeypatch, tmp_path):
    (tmp_path / "one.py").write_text('def f(x):\n    """Return what x is."""\n    return x\n')
    (tmp_path / "broken.py").write_text("def f(:\n")
    (tmp_path / "other.py").write_bytes(b"\xff\xfe")
    for name in ("test", "site-packages"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "two.py").write_text('def g():\n    """Left out."""\n')
    monkeypatch.setattr("sysconfig.get_paths", lambda: {"stdlib": str(tmp_path)})
    for seed in range(5):
        (prompt,) = stdlib_prompts(seed)
        assert [prompt] == list(stdlib_prompts(seed)) and "Return what x is." in prompt
    assert len({next(stdlib_prompts(seed)) for seed in range(20)}) == 5


def test_sources_are_cut_out_as_ast_cuts_them():
    for module in (textwrap, bisect):
        source = (
            inspect.getsource(module)
            + "\nclass Ü:\n  x = 'ü'; f = 1\n  def é(self): 'ö'; a = 'ß'\n"
        )
        lines = source.encode().split(b"\n")
        nodes = [one for one in ast.walk(ast.parse(source)) if isinstance(one, ast.FunctionDef)]
        assert len(nodes) > 3
        for node in nodes:
            assert _source_of(node, lines) == ast.get_source_segment(source, node)


def test_nothing_to_train_on_comes_from_an_evaluation_set(stdlib):
    """The list that `heads train` builds, with evaluation prompts mixed in."""
    sampled = random.Random(0).sample(stdlib, 1000)
    planted = [text for _, text in KNOWN]
    evaluation = EvaluationPrompts.packaged()
    found = gather([("standard library", [*sampled[:500], *planted, *sampled[500:]])], evaluation)
    assert set(found.texts) == set(sampled)
    assert found.num_dropped == len(planted)
    assert found.counts == {"standard library": len(set(sampled))}


def test_doubles_are_dropped_across_sources_and_the_order_is_the_seed_s():
    evaluation = EvaluationPrompts.of(["seven words that nobody may train on"])
    sources = [
        ("one", ["a", "b", "a", "Seven words, that nobody may train on!"]),
        ("two", ["b", *(str(number) for number in range(50))]),
    ]
    found = gather(sources, evaluation, seed=1)
    assert found.counts == {"one": 2, "two": 50} and found.num_dropped == 1
    assert sorted(found.texts) == sorted(["a", "b", *(str(number) for number in range(50))])
    assert found == gather(sources, evaluation, seed=1)
    assert found.texts != gather(sources, evaluation, seed=2).texts


def test_a_file_gives_the_first_field_that_it_has(tmp_path):
    path = tmp_path / "prompts.jsonl"
    path.write_text(
        '{"question": "one", "answer": "x"}\n\n{"text": "two", "prompt": "three"}\n'
        '{"prompt": " ", "instruction": "four"}\n'
    )
    assert list(file_prompts(path)) == ["one", "three", "four"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"prompt": "a"}\nnonsense\n', "line 2 is not JSON.*one JSON object a line"),
        (b'{"prompt": 3}\n', "line 1 has no text in any field of prompt, question, text"),
        (b'["prompt"]\n', "line 1 has no text in any field"),
        (b"\xff\xfe", "cannot read prompts from"),
    ],
    ids=["no JSON", "no text", "no object", "no text file"],
)
def test_a_bad_file_is_refused_with_its_line(tmp_path, content, reason):
    path = tmp_path / "prompts.jsonl"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=reason):
        list(file_prompts(path))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read prompts from .*nowhere\.jsonl"):
        list(file_prompts(tmp_path / "nowhere.jsonl"))
