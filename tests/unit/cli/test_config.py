"""`config show`: values with their origins."""

import json

import pytest

from leeway.core.config_settings import SETTINGS


def test_every_setting_is_listed_with_its_origin(leeway, monkeypatch):
    (leeway.folder / "leeway.toml").write_text("max_num_seqs = 3\n")
    monkeypatch.setenv("LEEWAY_TOP_K", "20")
    outcome = leeway("config", "show", "--port", "9", "--typical-threshold", "0.3")
    assert outcome.code == 0 and outcome.err == ""
    rows = {line.split()[0]: line for line in outcome.out.splitlines() if line}
    assert set(SETTINGS) <= set(rows)
    assert rows["port"].split() == ["port", "9", "--port"]
    assert rows["top_k"].split() == ["top_k", "20", "LEEWAY_TOP_K"]
    assert rows["max_num_seqs"].split() == ["max_num_seqs", "3", "leeway.toml:", "max_num_seqs"]
    assert rows["weights"].split() == ["weights", "int8", "default"]
    assert "law in force: typical (delta=0.3, eps=1.0)" in outcome.out
    assert "file read: leeway.toml" in outcome.out


def test_json(leeway):
    words = ["--stop", "a", "--law", "clip", "--law-option", "c1=2", "--kv-memory", "1MiB"]
    report = json.loads(leeway("config", "show", "--json", *words).out)
    assert set(report["settings"]) == set(SETTINGS)
    origin = {"layer": "flag", "origin": "--stop"}
    assert report["settings"]["stop"] == {"value": ["a"], **origin}
    assert report["settings"]["kv_memory"]["value"] == 2**20
    assert report["settings"]["seed"] == {"value": None, "layer": "default", "origin": "default"}
    assert report["settings"]["cache_dir"]["origin"] == "LEEWAY_CACHE_DIR"
    assert report["acceptance"] == {"law": "clip", "options": {"c1": 2}}
    assert report["file"] is None


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--typical-threshold", "-1"], ["'delta' is -1", "> 0", "(from --typical-threshold)"]),
        (["--cascade-threshold", "3"], ["'alpha' is 3", "[0, 1]", "(from --cascade-threshold)"]),
        (["--typical-threshold", "1", "--typical-eps", "-1"], ["'eps'", "(from --typical-eps)"]),
        (["--law", "typcal"], ["unknown law 'typcal'", "did you mean 'typical'?", "(from --law)"]),
        (["--law", "typical"], ["needs its option 'delta'"]),
        (["--top-p", "3"], ["top_p is 3.0", "(from --top-p)"]),
    ],
)
def test_what_other_verbs_refuse_is_refused_with_the_same_message(leeway, words, parts):
    outcome = leeway("config", "show", *words)
    assert outcome.code == 2 and outcome.out == ""
    assert all(part in outcome.err for part in parts), outcome.err
    model = ["--model", "/no/such/model.gguf"]
    assert outcome == leeway("generate", "-p", "x", *words, *model)


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_a_key_is_never_shown(leeway, words):
    outcome = leeway("config", "show", "--api-key", "sesame", *words)
    assert "sesame" not in outcome.out and "(hidden)" in outcome.out
