"""`heads`: what is listed, and what a head says of itself."""

import json
from dataclasses import replace

import pytest
from tests.support.native_heads import write_mimo_folder, write_nextn_gguf
from tests.support.tiny_heads import SHA256, read_raw, tiny_head_spec, write_raw, write_tiny_head

from leeway.models import heads as heads_module
from leeway.models.catalogue import CATALOGUE
from leeway.models.head_file import HeadFile

SUMMARY = {"steps": 7, "held_out": {"acceptance_by_depth": [0.618, 0.5, 0.25]}}


@pytest.fixture
def made(leeway, monkeypatch):
    """The folder of made heads; no heads ship."""
    monkeypatch.setattr(heads_module, "SHIPPED_HEADS", leeway.folder / "shipped")
    folder = leeway.folder / "cache" / "heads"
    folder.mkdir(parents=True)
    return folder


def test_nothing_is_said_with_the_next_step(leeway, made):
    outcome = leeway("heads")
    assert outcome.code == 0 and outcome == leeway("heads", "list")
    assert outcome.out.startswith("no draft heads; `leeway heads train MODEL` makes one")
    assert str(made) in outcome.out
    assert leeway("heads", "--quiet").out.count("\n") == 1


def test_heads_are_listed_with_their_figures(leeway, made):
    spec = replace(tiny_head_spec(num_draft_tokens=20), training=SUMMARY)
    write_tiny_head(made / "mine.safetensors", spec, target_name="my-model")
    write_tiny_head(made / "other.safetensors", replace(spec, training={}, draft_token_ids=None))
    (leeway.folder / "shipped").mkdir()
    write_tiny_head(leeway.folder / "shipped" / "ours.safetensors", spec)
    (made / "broken.safetensors").write_bytes(b"no head")
    outcome = leeway("heads")
    lines = outcome.out.splitlines()
    assert outcome.code == 0
    head = HeadFile(made / "mine.safetensors")
    size = f"{head.num_bytes / 1e6:.1f} MB"
    words = ["mine", "made", "my-model", "3", *size.split(), "20", "0.62", "0.50", "0.25"]
    assert lines[2].split() == [*words, head.sha256()[:12]]
    assert lines[1].split()[:2] == ["ours", "shipped"]
    assert lines[3].split()[:3] == ["other", "made", "tiny"]
    assert "not measured" in lines[3] and " 265 " in lines[3]
    assert lines[4].startswith("cannot be used: ") and "broken.safetensors" in lines[4]


def test_the_list_as_json(leeway, made):
    spec = replace(tiny_head_spec(num_draft_tokens=20), training=SUMMARY)
    write_tiny_head(made / "mine.safetensors", spec, target_name="my-model")
    (made / "zz.safetensors").write_bytes(b"")
    report = json.loads(leeway("heads", "list", "--json").out)
    assert report["cache_dir"] == str(leeway.folder / "cache")
    head = HeadFile(made / "mine.safetensors")
    assert report["heads"][0] == {
        "name": "mine",
        "origin": "made",
        "depth": 3,
        "num_layers": 1,
        "draft_vocab_size": 20,
        "vocab_size": 265,
        "acceptance_by_depth": [0.618, 0.5, 0.25],
        "sha256": head.sha256(),
        "path": str(made / "mine.safetensors"),
        "size_bytes": head.num_bytes,
        "target_name": "my-model",
        "target_sha256": SHA256,
    }
    assert report["heads"][1]["name"] == "zz" and "is empty" in report["heads"][1]["error"]


def test_a_head_is_inspected_by_name_and_path(leeway, made):
    entry = CATALOGUE[0]
    spec = replace(tiny_head_spec(num_draft_tokens=20), training=SUMMARY)
    spec = replace(spec, target_sha256=entry.sha256)
    path = made / "mine.safetensors"
    write_tiny_head(path, spec, target_name=entry.name, optional=("output",))
    outcome = leeway("heads", "inspect", "mine")
    assert outcome.code == 0 and outcome == leeway("heads", "inspect", str(path))
    for text in (
        f"target_sha256: {entry.sha256}",
        "    hidden_size: 64",
        "    steps: 7",
        '    held_out: {"acceptance_by_depth": [0.618, 0.5, 0.25]}',
        f"    target: the catalogue's {entry.name}",
        "    tensors: complete, of the right shapes, finite",
    ):
        assert f"{text}\n" in outcome.out
    rows = {line.split()[0]: line.split()[1:] for line in outcome.out.splitlines() if line}
    assert rows["project"] == ["I8", "64", "x", "128"]
    assert rows["output.scale"] == ["F16", "20", "x", "1"]
    assert rows["draft_token_ids"] == ["I32", "20"]
    report = json.loads(leeway("heads", "inspect", "mine", "--json").out)
    head = HeadFile(path)
    names = {name for name in head.stored if head.has_tensor(name)}
    assert report["checks"]["num_weights"] == sum(head.tensor(name).size for name in names)
    assert {item["name"] for item in report["tensors"]} == set(head.stored)
    assert report["decoder"]["rope_base"] == 10000.0 and report["training"] == SUMMARY


def test_a_corrupt_head_is_refused_when_inspected(leeway, made):
    path = made / "mine.safetensors"
    write_tiny_head(path)
    metadata, arrays = read_raw(path)
    arrays["layers.0.up.scale"][3, 0] = float("nan")
    write_raw(path, metadata, arrays)
    assert leeway("heads").code == 0
    outcome = leeway("heads", "inspect", "mine")
    assert outcome.code == 2 and "'layers.0.up' holds a number that is not finite" in outcome.err
    outcome = leeway("heads", "inspect", "mime")
    assert outcome.code == 2 and "unknown draft head 'mime'; did you mean 'mine'" in outcome.err


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_a_models_own_head_is_listed_and_inspected(leeway, made, kind):
    path = leeway.folder / ("mimo" if kind == "folder" else "m.gguf")
    if kind == "folder":
        write_mimo_folder(path, type_name="F16")
    else:
        write_nextn_gguf(path, "llama")
    listed = json.loads(leeway("heads", "list", "--model", str(path), "--json").out)["heads"]
    assert [(item["origin"], item["target_name"]) for item in listed] == [("native", path.stem)]
    assert listed[0]["target_sha256"] is None and listed[0]["size_bytes"] > 0
    outcome = leeway("heads", "inspect", str(path))
    own = (
        "model.mtp_layers.0.input_proj.weight" if kind == "folder" else "blk.2.nextn.eh_proj.weight"
    )
    [line] = [line for line in outcome.out.splitlines() if line.startswith("project ")]
    assert line.split() == ["project", "F16" if kind == "folder" else "F32", "64", "x", "128", own]


def test_a_model_without_a_head_of_its_own(leeway, made):
    from tests.support.tiny_models import write_tiny_gguf

    path = write_tiny_gguf(leeway.folder / "plain.gguf").path
    assert "no draft heads" in leeway("heads", "--model", str(path)).out
    outcome = leeway("heads", "inspect", str(path))
    assert outcome.code == 2 and "has no draft head of its own" in outcome.err


def test_a_word_too_many_is_refused_with_a_suggestion(leeway):
    outcome = leeway("heads", "inspekt")
    assert outcome.code == 2 and "did you mean 'inspect'" in outcome.err
