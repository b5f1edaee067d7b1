"""`generate` and `chat` from words to output."""

import errno
import io
import json
import os
import pty
import signal
from pathlib import Path

import pytest

ASK = ["generate", "-p", "hello world", "-n", "12", "-s", "5"]


def test_text_goes_to_stdout_and_the_receipt_to_stderr(on_tiny):
    outcome = on_tiny(*ASK)
    assert outcome.code == 0
    assert outcome.out.endswith("\n") and "[receipt]" not in outcome.out
    [line] = outcome.err.splitlines()
    assert line.startswith("[receipt] law rejection; guarantee exact_distribution; ")
    assert line.endswith("seed 5")
    quiet = on_tiny(*ASK, "--quiet")
    assert (quiet.out, quiet.err) == (outcome.out, "")


def test_json_holds_the_same_answer(on_tiny, tiny):
    text = on_tiny(*ASK).out
    report = json.loads(on_tiny(*ASK, "--json").out)
    assert report["text"] + "\n" == text
    assert len(report["token_ids"]) == len(report["provenance"])
    assert set(report["provenance"]) <= {"accepted", "recovered", "bonus"}
    assert report["finish_reason"] in ("stop", "length")
    assert report["receipt"]["seed"] == 5 and report["receipt"]["law"] == "rejection"
    assert report["prompt_token_ids"][0] == 1  # <|im_start|>: the chat template was applied


def test_raw_leaves_the_template_out(on_tiny):
    report = json.loads(on_tiny(*ASK, "--raw", "--json").out)
    assert 1 not in report["prompt_token_ids"]


def test_system_message_comes_first(on_tiny):
    plain, with_system = (
        json.loads(on_tiny(*ASK, *more, "--json").out)["prompt_token_ids"]
        for more in ([], ["--system", "be brief"])
    )
    assert len(with_system) > len(plain) and with_system[-8:] == plain[-8:]


def test_law_flags_reach_the_receipt(on_tiny):
    words = ["--typical-threshold", "0.3", "--typical-eps", "0.5", "--law-option", "off_set=coin"]
    receipt = json.loads(on_tiny(*ASK, *words, "--json").out)["receipt"]
    assert (receipt["law"], receipt["guarantee"]) == ("typical", "none")
    assert receipt["options"]["delta"] == 0.3 and receipt["options"]["off_set"] == "coin"


def test_same_seed_same_text_and_no_law_equals_rejection(on_tiny):
    outcomes = [on_tiny(*ASK, *more).out for more in ([], [], ["--law", "rejection"])]
    assert outcomes[0] == outcomes[1] == outcomes[2]


def test_output_file(on_tiny):
    path = on_tiny.folder / "answer.txt"
    outcome = on_tiny(*ASK, "-o", str(path))
    assert outcome.out == "" and path.read_text() == on_tiny(*ASK).out
    on_tiny(*ASK, "-o", str(path), "--json")
    assert json.loads(path.read_text())["receipt"]["seed"] == 5


@pytest.mark.parametrize("path", ["missing/answer.txt", "."])
def test_a_file_that_cannot_be_written_is_refused_before_any_work(on_tiny, path):
    outcome = on_tiny(*ASK, "-o", path)
    assert outcome.code == 2 and repr(path) in outcome.err and outcome.out == ""


def test_provenance_marks_hold_the_text(on_tiny):
    words = [*ASK, "--raw", "-p", "hello hello hello hello", "--temperature", "0"]
    words = [word for word in words if word != "hello world"]
    words.remove("-p")
    plain = on_tiny(*words).out
    marked = on_tiny(*words, "--show-provenance")
    assert "[accepted] {recovered} bonus" in marked.err
    assert _without_marks(marked.out) == _without_marks(plain)
    assert on_tiny(*words, "--color-tokens").out == marked.out


def _without_marks(text):
    return "".join(character for character in text if character not in "[]{}")


def test_prompt_from_a_pipe(on_tiny, monkeypatch):
    wanted = on_tiny(*ASK).out
    monkeypatch.setattr("sys.stdin", io.StringIO("hello world"))
    assert on_tiny("generate", "-n", "12", "-s", "5").out == wanted
    monkeypatch.setattr("sys.stdin", io.StringIO(" \n"))
    outcome = on_tiny("generate")
    assert outcome.code == 2 and "the prompt is empty" in outcome.err


def chat(leeway, monkeypatch, lines, *words):
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
    return leeway("chat", "-n", "6", "-s", "5", "--temperature", "0", *words)


def test_chat_answers_each_line_with_the_history(on_tiny, monkeypatch):
    outcome = chat(on_tiny, monkeypatch, ["hello", "", "world"], "--json")
    first, second = (json.loads(line) for line in outcome.out.splitlines())
    assert outcome.code == 0
    assert first["receipt"]["output_tokens"] == len(first["token_ids"])
    alone = chat(on_tiny, monkeypatch, ["world"], "--json")
    assert json.loads(alone.out)["token_ids"] != second["token_ids"] or first["text"] == ""


def test_chat_commands(on_tiny, monkeypatch):
    lines = ["/receipt", "hello", "/law typical delta=0.3", "/receipt", "/reset", "/help", "/quit"]
    outcome = chat(on_tiny, monkeypatch, [*lines, "never reached"])
    assert outcome.code == 0
    assert "there is no answer yet" in outcome.err
    assert "law typical(delta=0.3" in outcome.err and "guarantee none" in outcome.err
    assert "the conversation is forgotten" in outcome.err and "/quit" in outcome.err
    assert outcome.err.count("[receipt]") == 1
    assert '"law": "' in outcome.out


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("/lawx", "unknown command '/lawx'; did you mean '/law'?"),
        ("/law typcal", "unknown law 'typcal'"),
        ("/law typical delta", "key=value"),
        ("/law opt alpha=0", "--draft-model NAME"),
    ],
)
def test_a_mistake_in_chat_is_said_and_the_talk_goes_on(on_tiny, monkeypatch, line, part):
    outcome = chat(on_tiny, monkeypatch, [line, "hello"])
    assert outcome.code == 0 and part in outcome.err and "[receipt] law " in outcome.err


def test_interrupting_generate_exits_130(on_tiny):
    words = ["generate", "-p", "x", "-n", "100000", "--kv-memory", "64MiB", "--raw"]
    with on_tiny.start(*words, "--stop", "§") as process:
        process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode in (0, 130) and "Traceback" not in err


FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("words", [ASK, [*ASK, "--json"], ["laws"], ["version", "--json"]])
def test_a_full_disk_is_one_line_and_a_failure(on_tiny, words):
    with FULL.open("w") as full, on_tiny.start(*words, stdout=full) as process:
        _, err = process.communicate(timeout=60)
    lines = [line for line in err.splitlines() if not line.startswith("[receipt]")]
    assert process.returncode == 1
    assert lines == [
        "error: cannot write standard output: No space left on device; send it elsewhere"
    ]


def test_another_failure_of_the_system_is_not_taken_for_a_full_disk(on_tiny, monkeypatch):
    def fail(*_, **__):
        raise OSError(errno.ENOENT, "no such file", "/somewhere")

    monkeypatch.setattr("leeway.cli.call.resolve", fail)
    with pytest.raises(OSError, match="/somewhere"):
        on_tiny("version")


def test_generate_into_a_closed_pipe_is_quiet(on_tiny):
    words = ["generate", "-p", "x", "-n", "200", "--raw", "--stop", "§"]
    with on_tiny.start(*words) as process:
        process.stdout.close()
        err = process.stderr.read()
        process.wait(timeout=60)
    assert process.returncode == 1 and err == ""


def test_a_closed_pipe_is_no_traceback(on_tiny):
    with on_tiny.start("laws") as process:
        process.stdout.close()
        err = process.stderr.read()
        process.wait(timeout=60)
    assert process.returncode == 1 and err == ""


def on_terminal(leeway, *words, until=""):
    """Run with stderr on a terminal; interrupt once `until` was printed on stdout."""
    ours, theirs = pty.openpty()
    env = {"TERM": "xterm", "COLUMNS": "80"}
    with leeway.start(*words, env=env, stderr=theirs) as process:
        os.close(theirs)
        process.stdin.close()
        if until:
            assert process.stdout.readline().startswith(until)
            process.send_signal(signal.SIGINT)
        seen = b""
        while chunk := _read(ours):
            seen += chunk
        process.wait(timeout=60)
    os.close(ours)
    return seen.decode()


def _read(terminal):
    try:
        return os.read(terminal, 4096)
    except OSError:  # Linux: nobody holds the other end any more
        return b""


LOADING = "loading tiny.gguf ...\r\x1b[2K"


def test_on_a_terminal_a_line_says_what_loads_and_goes_away(on_tiny):
    assert on_terminal(on_tiny, *ASK).startswith(LOADING + "[receipt]")
    assert on_terminal(on_tiny, "chat").startswith(LOADING)
    assert on_terminal(on_tiny, *ASK, "--quiet") == ""
    assert on_terminal(on_tiny, *ASK, "--json").startswith("[receipt]")


def test_the_line_of_a_server_is_gone_before_its_log_begins(on_tiny):
    seen = on_terminal(on_tiny, "serve", "--port", "0", until="http://")
    assert seen.startswith(LOADING) and seen.count("loading tiny") == 1
    assert "INFO serving tiny" in seen.removeprefix(LOADING)


def test_the_line_goes_away_when_loading_fails(on_tiny, tiny):
    broken = on_tiny.folder / "tiny.gguf"
    broken.write_bytes(Path(tiny).read_bytes()[:200])
    assert on_terminal(on_tiny, *ASK, "-m", str(broken)).startswith(LOADING + "error: ")
