import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.tiny_models import write_tiny_gguf, write_tiny_hf_folder

from leeway.core.errors import FetchError, ModelError
from leeway.models import open as open_module
from leeway.models.catalogue import CATALOGUE, cached_path
from leeway.models.open import open_model


def test_a_gguf_file(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "Tiny.gguf").path
    assert open_model(str(path)).name == "Tiny"


def test_a_folder(tmp_path: Path) -> None:
    folder = write_tiny_hf_folder(tmp_path / "tiny-folder", "qwen3").path
    assert open_model(str(folder)).spec.family == "qwen3"


def test_a_catalogue_name_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = write_tiny_gguf(tmp_path / "m.gguf").path.read_bytes()
    entry = replace(
        CATALOGUE[0],
        size_bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
    )
    monkeypatch.setattr(open_module, "find_entry", lambda name: entry)
    place = cached_path(entry, tmp_path)
    place.parent.mkdir()
    place.write_bytes(content)
    files = open_model(entry.name.upper(), cache_dir=tmp_path, offline=True)
    assert files.name == entry.name
    place.unlink()  # the checksum was compared when it was opened: it is not read for it again
    assert files.sha256() == entry.sha256


def test_a_catalogue_name_wins_over_a_folder_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = CATALOGUE[0].name
    write_tiny_hf_folder(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FetchError, match="cannot get model"):
        open_model(name, cache_dir=tmp_path / "empty", offline=True)
    assert open_model(f"./{name}").spec.family == "llama"


@pytest.mark.parametrize("name", ["missing.gguf", "no/such/folder", "./smollm2-135m-instruct"])
def test_a_path_that_is_not_there(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match=f"there is no file or folder '{name}'"):
        open_model(name)


def test_an_unknown_name() -> None:
    with pytest.raises(ModelError, match="unknown model 'smollm2-instruct'; did you mean"):
        open_model("smollm2-instruct")


def test_a_file_of_another_kind(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"\x10\x00\x00\x00\x00\x00\x00\x00{}")
    with pytest.raises(ModelError, match=r"not a GGUF file: .* Hugging Face folder"):
        open_model(str(path))
    with pytest.raises(ModelError, match=r"is not a model folder: it has no config\.json"):
        open_model(str(tmp_path))
