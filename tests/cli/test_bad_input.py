"""What a user can get wrong: one clear message, exit code 2, before any work is done."""

import socket
from pathlib import Path

import pytest

PROMPT = ["generate", "-p", "hello"]


@pytest.mark.parametrize("verb", [PROMPT, ["serve", "--port", "0"], ["chat"], ["demo"]])
@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--law", "typcal"], ["unknown law 'typcal'", "did you mean 'typical'?", "leeway laws"]),
        (["--law", "typical"], ["needs its option 'delta'", "leeway explain typical"]),
        (["--typical-threshold", "-1"], ["'delta' is -1", "> 0", "(from --typical-threshold)"]),
        (["--cascade-threshold", "2"], ["'alpha' is 2", "(from --cascade-threshold)"]),
        (
            ["--law", "clip", "--law-option", "c1=0"],
            ["'c1' is 0", ">= 1", "(from --law-option)"],
        ),
        (
            ["--typical-threshold", "0.3", "--cascade-threshold", "0"],
            ["--typical-threshold", "--cascade-threshold", "cannot work together"],
        ),
        (["--weights", "int3"], ["weights 'int3'", "int8, int4, 16bit, f32"]),
        (
            ["--drafter", "mpt"],
            ["drafter 'mpt'", "auto, mtp, mtp_ngram, ngram, draft_model, none", "'mtp'?"],
        ),
        (["--draft-temperature", "1e-40"], ["draft_temperature '1e-40'", "0, or 0.01 to 100"]),
        (["--head", "h", "--drafter", "ngram"], ["head 'h'", "does nothing with drafter 'ngram'"]),
        (["--no-such-flag"], ["--no-such-flag"]),
    ],
)
def test_settings_are_refused_before_the_model_is_touched(leeway, verb, words, parts):
    outcome = leeway(*verb, *words, "--model", "/no/such/model.gguf")
    assert outcome.code == 2 and outcome.out == ""
    assert all(part in outcome.err for part in parts), outcome.err


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--top-p", "3"], "top_p is 3.0"),
        (["--temperature", "-1"], "temperature is -1.0"),
        (["-n", "-5"], "max_tokens '-5' (from --max-tokens) is out of range"),
        (["-n", "0"], "max_tokens '0' (from --max-tokens) is out of range"),
    ],
)
def test_sampling_is_refused_with_its_origin(leeway, words, part):
    outcome = leeway(*PROMPT, *words, "--model", "/no/such/model.gguf")
    assert outcome.code == 2 and part in outcome.err and "(from --" in outcome.err


def test_refusal_names_a_variable(leeway, monkeypatch):
    monkeypatch.setenv("LEEWAY_TOP_P", "3")
    assert "(from LEEWAY_TOP_P)" in leeway(*PROMPT).err


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("smollm2-135m", ["unknown model", "did you mean 'smollm2-135m-instruct'?"]),
        ("./none.gguf", ["none.gguf"]),
    ],
)
@pytest.mark.parametrize("verb", [PROMPT, ["serve", "--port", "0"]])
def test_a_model_that_is_not_there(leeway, verb, name, parts):
    outcome = leeway(*verb, "--model", name)
    assert outcome.code == 2 and all(part in outcome.err for part in parts), outcome.err


@pytest.mark.parametrize("damage", ["truncated", "header", "junk", "empty"])
def test_a_damaged_gguf(leeway, tiny, damage):
    content = Path(tiny).read_bytes()
    broken = {
        "truncated": content[: len(content) // 2],
        "header": content[:200],
        "junk": b"\x00" * 4096,
        "empty": b"",
    }[damage]
    path = leeway.folder / "broken.gguf"
    path.write_bytes(broken)
    outcome = leeway(*PROMPT, "--model", str(path))
    assert outcome.code == 2 and "broken.gguf" in outcome.err and "Traceback" not in outcome.err


def test_a_law_that_needs_draft_rows_on_a_drafter_without(on_tiny):
    outcome = on_tiny(*PROMPT, "--law", "opt", "--law-option", "alpha=0")
    assert outcome.code == 2 and "--draft-model NAME" in outcome.err


def test_a_prompt_longer_than_the_context(on_tiny):
    outcome = on_tiny(*PROMPT[:1], "-p", "hello " * 400)
    assert outcome.code == 2 and "256" in outcome.err and "shorten the prompt" in outcome.err


def test_a_request_that_cannot_fit_the_cache(on_tiny, monkeypatch):
    monkeypatch.setenv("LEEWAY_KV_MEMORY", "16KiB")
    outcome = on_tiny(*PROMPT, "-n", "200")
    assert outcome.code == 2 and "--kv-memory" in outcome.err


def test_a_port_that_is_taken(on_tiny):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        outcome = on_tiny("serve", "--port", port)
    assert outcome.code == 2
    assert f"port {port}" in outcome.err and "--port" in outcome.err


def test_an_unknown_law_in_the_ceiling(on_tiny):
    outcome = on_tiny("serve", "--port", "0", "--allow-laws", "typcal")
    assert outcome.code == 2 and "typcal" in outcome.err and "--allow-laws" in outcome.err


def test_no_network_at_first_start(leeway):
    nowhere = "http://127.0.0.1:9"
    env = {
        "HF_ENDPOINT": nowhere,
        "PIP_INDEX_URL": f"{nowhere}/simple",
        "PIP_RETRIES": "0",
        "PIP_TIMEOUT": "1",
        "PIP_NO_INDEX": "1",
    }
    outcome = leeway.run(*PROMPT, env=env)
    assert outcome.code == 2 and outcome.out == "" and "Traceback" not in outcome.err
    assert "cannot get model 'smollm2-135m-instruct'" in outcome.err
    assert "leeway models pull smollm2-135m-instruct --from PATH" in outcome.err
    assert not list((leeway.folder / "cache").rglob("*.gguf"))


def test_prompt_is_needed_on_a_terminal(leeway, monkeypatch):
    class Terminal:
        def isatty(self):
            return True

    monkeypatch.setattr("sys.stdin", Terminal())
    outcome = leeway("generate")
    assert outcome.code == 2 and "give -p TEXT" in outcome.err


def test_system_and_raw(leeway):
    outcome = leeway(*PROMPT, "--raw", "--system", "x")
    assert outcome.code == 2 and "--system needs the chat template" in outcome.err
