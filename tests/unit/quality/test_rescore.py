"""Saved completions scored again, from Leeway's own lines and in evalplus's form."""

import json

import pytest
from tests.support.quality_runs import TASKS, LetterSuite

from leeway.core.errors import ConfigError
from leeway.quality.rescore import Saved, read_saved, rescore, strict_rates
from leeway.quality.results import COMPLETIONS, SavedCompletion, append_lines
from leeway.quality.suites.base import LoadedSuite

DATA = LoadedSuite(TASKS, "d" * 64, "here", True)


def lines(path, *values):
    path.write_text("\n".join(json.dumps(value) for value in values) + "\n\n", encoding="utf-8")
    return path


def own(arm, task, text, reason="stop", sample=1):
    return SavedCompletion(1, arm, task, sample, reason, "p", text, f"only {text}")


def test_own_lines_keep_arm_sample_and_where_they_were_cut(tmp_path):
    append_lines(
        tmp_path / COMPLETIONS,
        [
            own("exact", "t0", "ab"), own("exact", "t1", "ab", "length"), own("soft", "t0", "aa"),
            own("soft", "t0", "ba"),  # asked again: the last one counts
        ],
    )  # fmt: skip
    suite = LetterSuite()
    results = rescore(read_saved(tmp_path), suite, DATA, None, num_scorers=2)
    assert [(one.saved.arm, one.saved.task_id) for one in results] == [
        ("exact", "t0"), ("exact", "t1"), ("soft", "t0"),
    ]  # fmt: skip
    assert [one.score.is_correct for one in results] == [True, True, True]
    assert [one.is_strictly_correct for one in results] == [True, False, True]
    rates = strict_rates(results)
    assert (rates["exact"].value, rates["exact"].num, rates["soft"].value) == (0.5, 2, 1.0)
    assert sorted(suite.scored) == [("t0", "ab"), ("t0", "ba"), ("t1", "ab")]  # the whole answer


def test_samples_of_evalplus(tmp_path):
    path = lines(
        tmp_path / "model-x.jsonl",
        {"task_id": "t0", "solution": "bb", "completion": "never read"},
        {"task_id": "t0", "completion": "aa"},
        {"task_id": "t1", "completion": "b"},
    )
    saved = read_saved(path)
    assert [(one.arm, one.task_id, one.sample, one.text) for one in saved] == [
        ("model-x", "t0", 1, "bb"), ("model-x", "t0", 2, "aa"), ("model-x", "t1", 1, "b"),
    ]  # fmt: skip
    assert {one.finish_reason for one in saved} == {None}
    rate = strict_rates(rescore(saved, LetterSuite(), DATA, None))["model-x"]
    assert rate.value == pytest.approx(2 / 3) and rate.num == 3


def test_progress_counts():
    seen = []
    saved = [own("a", "t0", "b")] * 3
    again = [Saved(one.arm, one.task_id, 1, one.completion, None) for one in saved]
    rescore(again, LetterSuite(), DATA, None, on_scored=seen.append)
    assert seen == [1, 2, 3]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"task_id": "t0"}, "line 1: not a completion; a line is"),
        ({"solution": "x"}, "line 1: not a completion"),
        ([1], "line 1: not a completion"),
    ],
)
def test_other_lines_are_refused(tmp_path, value, says):
    with pytest.raises(ConfigError, match=says):
        read_saved(lines(tmp_path / "x.jsonl", value))


def test_missing_files_and_foreign_tasks_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="writes it with --save-completions"):
        read_saved(tmp_path)
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(ConfigError, match="holds no completion"):
        read_saved(tmp_path / "empty.jsonl")
    saved = read_saved(lines(tmp_path / "x.jsonl", {"task_id": "HumanEval/0", "solution": "x"}))
    with pytest.raises(ConfigError, match="'HumanEval/0' is not in letters, whose first one is"):
        rescore(saved, LetterSuite(), DATA, None)
