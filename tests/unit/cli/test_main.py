"""Exit codes, suggestions and global flags."""

import pytest

from leeway.cli.main import main
from leeway.core.errors import BackendError


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["vrsion"], ["unknown verb 'vrsion'", "did you mean 'version'?", "leeway --help"]),
        (["bench", "rnu"], ["unknown verb 'rnu'", "did you mean 'run'?", "`leeway bench --help`"]),
        (["--jsn", "version"], ["unknown flag '--jsn'", "did you mean '--json'?"]),
        (["config", "show", "--prt", "1"], ["--prt", "Did you mean --port?"]),
        (["models", "pul"], ["unexpected argument 'pul'", "did you mean 'pull'?"]),
        (["version", "x"], ["unexpected argument 'x'"]),
        (["explain"], ["LAW"]),
        (["config", "show", "--port"], ["--port", "requires an argument"]),
        (["config", "show", "--port", "x"], ["port 'x' (from --port) is not an integer"]),
        (["serve", "a", "--model", "b"], ["MODEL is 'a' and --model is 'b'"]),
    ],
)
def test_a_mistake_is_one_message_and_exit_code_2(leeway, words, parts):
    outcome = leeway(*words)
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.startswith("error: ") and outcome.err.count("\n") == 1
    assert all(part in outcome.err for part in parts), outcome.err


def test_no_verb_prints_help(leeway):
    outcome = leeway()
    assert outcome.code == 0
    for verb in ("serve", "generate", "chat", "laws", "explain", "models", "doctor", "config"):
        assert f"│ {verb} " in outcome.out
    assert outcome == leeway("--help")


def test_global_flags_stand_before_or_behind_the_verb(leeway):
    assert leeway("--json", "version") == leeway("version", "--json")
    assert leeway("version", "--json").out.startswith("{")


def test_json_can_be_asked_for_by_variable_and_file(leeway, monkeypatch):
    wanted = leeway("version", "--json").out
    monkeypatch.setenv("LEEWAY_JSON", "1")
    assert leeway("version").out == wanted
    monkeypatch.delenv("LEEWAY_JSON")
    (leeway.folder / "leeway.toml").write_text("json = true\n")
    assert leeway("version").out == wanted
    (leeway.folder / "other.toml").write_text("json = false\n")
    assert leeway("version", "--config", "other.toml").out.startswith("leeway ")


def test_a_wrong_file_is_named_by_every_verb(leeway):
    (leeway.folder / "leeway.toml").write_text("prt = 1\n")
    for words in (["version"], ["laws"], ["explain", "block"], ["models"], ["config", "show"]):
        outcome = leeway(*words)
        assert outcome.code == 2
        assert "unknown key 'prt' in leeway.toml; did you mean 'port'?" in outcome.err


@pytest.mark.parametrize(
    ("raised", "code", "err"),
    [
        (BackendError("logits are not finite"), 1, "error: logits are not finite\n"),
        (KeyboardInterrupt(), 130, "\n"),
    ],
)
def test_failures_at_run_time(leeway, monkeypatch, raised, code, err):
    def fail(*_, **__):
        raise raised

    monkeypatch.setattr("leeway.cli.call.resolve", fail)
    outcome = leeway("version")
    assert (outcome.code, outcome.err) == (code, err)


def test_words_are_taken_from_the_process_when_none_are_given(leeway, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["leeway", "version"])
    assert main() == 0
    assert capsys.readouterr().out.startswith("leeway ")
