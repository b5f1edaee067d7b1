"""`models`: the catalogue, and pulling from a file."""

import json
import os

import pytest

from leeway.models.catalogue import CATALOGUE


def test_the_catalogue_is_listed(leeway):
    outcome = leeway("models")
    assert outcome.code == 0 and outcome == leeway("models", "list")
    for entry in CATALOGUE:
        line = next(line for line in outcome.out.splitlines() if line.startswith(entry.name))
        assert entry.licence in line and line.endswith("no")
        assert entry.hub.repository in outcome.out and entry.packages.names[0] in outcome.out
    assert str(leeway.folder / "cache") in outcome.out


@pytest.mark.parametrize(("missing_bytes", "is_cached"), [(0, True), (1, False), (10**7, False)])
def test_json_and_cached(leeway, missing_bytes, is_cached):
    path = leeway.folder / "elsewhere" / "models" / CATALOGUE[0].filename
    path.parent.mkdir(parents=True)
    path.touch()
    os.truncate(path, CATALOGUE[0].size_bytes - missing_bytes)
    words = ["models", "--json", "--cache-dir", str(leeway.folder / "elsewhere")]
    report = json.loads(leeway(*words).out)
    assert [model["name"] for model in report["models"]] == [entry.name for entry in CATALOGUE]
    assert [model["is_cached"] for model in report["models"]] == [is_cached, False, False]
    assert report["models"][0]["path"] == str(path)
    assert report["models"][0]["is_default"]


def test_a_wrong_name_is_refused_with_a_suggestion(leeway):
    outcome = leeway("models", "pull", "smollm2-135m")
    assert outcome.code == 2
    assert "unknown model 'smollm2-135m'; did you mean 'smollm2-135m-instruct'?" in outcome.err


def test_a_file_that_is_not_the_model_is_refused_and_leaves_nothing(leeway):
    wrong = leeway.folder / "wrong.gguf"
    wrong.write_bytes(b"GGUF")
    outcome = leeway("models", "pull", CATALOGUE[0].name, "--from", str(wrong))
    assert outcome.code == 2 and "4 bytes" in outcome.err
    assert not list((leeway.folder / "cache").rglob("*.gguf"))
