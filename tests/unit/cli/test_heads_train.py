"""`heads train`: what is refused before anything begins, and what is shown on the way."""

import json
import sys
from pathlib import Path

import pytest
from tests.support.tiny_models import write_tiny_hf_folder

from leeway.cli.call import Screen
from leeway.cli.heads_train import _head_name, _Stages
from leeway.heads import make
from leeway.heads.evaluate import Report

REPORT = Report((0.5, 0.4), (0.45, 0.35), (0.6, 0.5), 0.97, 123)


@pytest.fixture(name="plans")
def _plans(monkeypatch):
    """Let making a head end at once; return what was asked for."""
    asked = []

    def record(plan, on_progress, on_fetch):
        asked.append(plan)
        for done in (0, 3, 5, 5, 10):
            on_progress("training", done, 10)
        return REPORT

    monkeypatch.setattr(make, "make_head", record)
    return asked


def test_help_tells_what_is_needed(leeway):
    outcome = leeway("heads", "train", "--help")
    assert outcome.code == 0
    words = " ".join(outcome.out.split())
    assert "pip install 'leeway-llm[train]'" in words and "goes on where it was" in words
    assert "--empty-prompts" not in words
    assert "train" in leeway("heads", "--help").out


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--depth", "6"], "--depth is 6; allowed: 1 to 5"),
        (["--depth", "0"], "--depth is 0; allowed: 1 to 5"),
        (["--positions", "0"], "--positions is 0; allowed: 1 or more"),
        (["--answer-positions", "-1"], "--answer-positions is -1; allowed: 1 or more"),
        (["--draft-vocab", "0"], "--draft-vocab is 0; allowed: 1 or more"),
        (["--own-turns", "-1"], "--own-turns is -1; allowed: 0 or more"),
        (["--stdlib", "-1"], "--stdlib is -1; allowed: 0 or more"),
        (["--seed", "-1"], "--seed is -1; allowed: 0 to 4294967295"),
        (["--seed", str(2**32)], "--seed is 4294967296; allowed: 0 to 4294967295"),
        (["--stdlbi", "1"], "--stdlbi"),
    ],
    ids=lambda one: "".join(one) if isinstance(one, list) else "",
)
def test_numbers_out_of_range_are_refused(leeway, plans, words, reason):
    outcome = leeway("heads", "train", "smollm2-135m-instruct", *words)
    assert outcome.code == 2 and reason in outcome.err and plans == []


def test_an_unknown_model_is_refused_with_a_suggestion(leeway):
    outcome = leeway("heads", "train", "smollm2-135m")
    assert outcome.code == 2 and "smollm2-135m" in outcome.err and outcome.out == ""


def test_a_file_of_another_kind_is_refused_as_output_before_work_begins(leeway):
    write_tiny_hf_folder(leeway.folder / "tiny")
    outcome = leeway("heads", "train", "./tiny", "--out", "head.gguf")
    assert outcome.code == 2 and "must end in .safetensors" in outcome.err
    (leeway.folder / "file").touch()
    outcome = leeway("heads", "train", "./tiny", "--out", "file/head.safetensors")
    assert outcome.code == 2 and "cannot write a head to" in outcome.err


def test_a_missing_pytorch_is_named_with_what_installs_it(leeway, plans, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    outcome = leeway("heads", "train", "smollm2-135m-instruct")
    assert outcome.code == 2 and plans == []
    assert "PyTorch" in outcome.err and "pip install 'leeway-llm[train]'" in outcome.err


def test_files_lie_under_the_cache_unless_told_otherwise(leeway, plans):
    leeway("heads", "train", "qwen2.5-coder-0.5b-instruct", "--prompts", "a", "--prompts", "b")
    heads = leeway.folder / "cache" / "heads"
    assert plans[0].out == heads / "qwen2.5-coder-0.5b-instruct.safetensors"
    assert plans[0].work == heads / "work" / "qwen2.5-coder-0.5b-instruct"
    assert plans[0].prompt_files == (Path("a"), Path("b"))
    given = ["--work", "w", "--out", "o.safetensors", "--depth", "2", "--draft-vocab", "9"]
    leeway("heads", "train", "x", *given, "--positions", "7", "--answer-positions", "8")
    plan = plans[1]
    assert (plan.work, plan.out) == (Path("w"), Path("o.safetensors"))
    assert (plan.recipe.depth, plan.recipe.num_positions) == (2, 7)
    assert (plan.num_draft_tokens, plan.num_answer_positions) == (9, 8)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("qwen2.5-coder-0.5b-instruct", "qwen2.5-coder-0.5b-instruct"),
        ("some/Model-1.5B.Q4_1.gguf", "model-1.5b.q4_1"),
        ("/models/tiny-llama/", "tiny-llama"),
        ("~/Tiny", "tiny"),
    ],
)
def test_a_head_is_named_after_its_model(model, name):
    assert _head_name(model) == name


def test_the_report_is_printed(leeway, plans):
    outcome = leeway("heads", "train", "x")
    assert outcome.code == 0
    assert "acceptance_by_depth: [0.5, 0.4]" in outcome.out
    assert "tokens_per_step: 1.7" in outcome.out and "temperature 1, top-p 0.95" in outcome.out
    value = json.loads(leeway("heads", "train", "x", "--json").out)
    assert value["acceptance_by_depth"] == [0.5, 0.4] and value["held_out_positions"] == 123
    assert value["draft_acceptance_rate"] == pytest.approx(0.35)


def test_in_a_pipe_a_stage_shows_its_begin_and_each_tenth(leeway, plans):
    outcome = leeway("heads", "train", "x")
    assert outcome.err.splitlines() == [
        "training: 10 to do",
        "training: 30 %",
        "training: 50 %",
        "training: 100 %",
    ]
    assert leeway("heads", "train", "x", "--quiet").err == ""


def test_on_a_terminal_a_stage_is_a_bar(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with _Stages(Screen()) as stages:
        stages("answers", 0, 10)
        stages("answers", 12, 10)
        stages("training", 1, 2)
    shown = capsys.readouterr().err
    assert "answers" in shown and "10/10" in shown and "training" in shown and "%" not in shown
