import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.array_files import ArrayFiles
from tests.support.tiny_heads import SHA256, tiny_head_spec, write_tiny_head

from leeway.core.errors import ModelError
from leeway.models import heads as heads_module
from leeway.models.catalogue import CATALOGUE
from leeway.models.head_file import HeadFile
from leeway.models.heads import (
    SHIPPED_HEADS,
    find_head,
    list_heads,
    made_heads,
    open_head,
)

OTHER = "cd" * 32


class Target(ArrayFiles):
    """A target that counts how often its checksum is asked for."""

    def __init__(self, sha256: str = SHA256, **spec_changes: Any) -> None:
        super().__init__(**spec_changes)
        self.value = sha256
        self.asked = 0

    def sha256(self) -> str:
        self.asked += 1
        return self.value


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path, Path]:
    """Folders of shipped and made heads, and the cache folder above the latter."""
    shipped, cache_dir = tmp_path / "shipped", tmp_path / "cache"
    shipped.mkdir()
    made_heads(cache_dir).mkdir(parents=True)
    monkeypatch.setattr(heads_module, "SHIPPED_HEADS", shipped)
    return shipped, made_heads(cache_dir), cache_dir


def head_for(path: Path, sha256: str = SHA256, seconds: int = 0, **spec_changes: Any) -> Path:
    write_tiny_head(path, replace(tiny_head_spec(**spec_changes), target_sha256=sha256))
    os.utime(path, (1000 + seconds, 1000 + seconds))
    return path


def test_a_shipped_head_is_found_by_the_checksum(places) -> None:
    shipped, _, cache_dir = places
    head_for(shipped / "a.safetensors", OTHER)
    path = head_for(shipped / "b.safetensors")
    assert find_head(Target(), cache_dir).path == path
    assert find_head(Target("ef" * 32), cache_dir) is None


def test_a_shipped_head_goes_before_a_made_one_and_the_last_made_one_before_others(places) -> None:
    shipped, made, cache_dir = places
    head_for(made / "older.safetensors", seconds=1)
    newest = head_for(made / "newer.safetensors", seconds=3)
    head_for(made / "oldest.safetensors", seconds=2)
    assert find_head(Target(), cache_dir).path == newest
    path = head_for(shipped / "z.safetensors")
    assert find_head(Target(), cache_dir).path == path


def test_a_model_that_no_head_has_the_sizes_of_is_not_read_for_its_checksum(places) -> None:
    shipped, _, cache_dir = places
    head_for(shipped / "a.safetensors")
    target = Target(ffn_size=128)
    assert find_head(target, cache_dir) is not None and target.asked
    target = Target(hidden_size=128, head_size=32)
    assert find_head(target, cache_dir) is None and not target.asked


def test_a_broken_head_is_passed_over_aloud(places, caplog: pytest.LogCaptureFixture) -> None:
    shipped, made, cache_dir = places
    path = head_for(shipped / "b.safetensors")
    (made / "a.safetensors").write_bytes(b"broken")
    (made / ".x.safetensors").write_bytes(b"hidden files are no heads")
    assert find_head(Target(), cache_dir).path == path
    head_for(made / "c.safetensors")
    path.unlink()
    assert find_head(Target(), cache_dir).name == "c"
    assert "passed over a draft head" in caplog.text and "a.safetensors" in caplog.text
    listed = list_heads(cache_dir)
    assert [item.path.name for item in listed] == ["a.safetensors", "c.safetensors"]
    assert listed[0].head is None and "not a safetensors file" in listed[0].error


def test_heads_are_listed_by_where_they_lie(places) -> None:
    shipped, made, cache_dir = places
    head_for(made / "a.safetensors")
    head_for(shipped / "c.safetensors")
    head_for(shipped / "b.safetensors")
    listed = [(item.origin, item.path.stem) for item in list_heads(cache_dir)]
    assert listed == [("shipped", "b"), ("shipped", "c"), ("made", "a")]
    assert list_heads(cache_dir / "no such folder")[0].origin == "shipped"


def test_a_head_is_opened_by_name_or_path(places, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped, made, cache_dir = places
    head_for(made / "mine.safetensors")
    head_for(shipped / "same.safetensors")
    elsewhere = head_for(cache_dir / "elsewhere.safetensors")
    head_for(made / "same.safetensors")
    for name in ("mine", "MINE"):
        assert open_head(name, Target(), cache_dir=cache_dir).path.parent == made
    assert open_head("same", Target(), cache_dir=cache_dir).path.parent == shipped
    assert open_head(str(elsewhere), Target(), cache_dir=cache_dir).path == elsewhere
    monkeypatch.chdir(cache_dir)
    assert open_head("elsewhere.safetensors", Target()).name == "elsewhere"
    monkeypatch.setenv("LEEWAY_CACHE_DIR", str(cache_dir))
    assert open_head("mine", Target()).path.parent == made


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mime", "unknown draft head 'mime'; did you mean 'mine'"),
        ("xyz", "unknown draft head 'xyz'; `leeway heads list` shows"),
        ("xyz.safetensors", "there is no draft head 'xyz.safetensors'"),
        ("no/such", "there is no draft head 'no/such'"),
    ],
)
def test_a_head_that_is_not_there(places, name: str, message: str) -> None:
    _, made, cache_dir = places
    head_for(made / "mine.safetensors")
    with pytest.raises(ModelError, match=message) as caught:
        open_head(name, Target(), cache_dir=cache_dir)
    assert caught.value.param == "head"


def test_a_head_for_another_target_is_refused_by_checksum(places) -> None:
    _, made, cache_dir = places
    path = head_for(made / "mine.safetensors", OTHER)
    with pytest.raises(ModelError, match="draft head 'mine' was made for 'tiny'") as caught:
        open_head(str(path), Target(), cache_dir=cache_dir)
    assert SHA256 in caught.value.message and OTHER in caught.value.message
    assert "`leeway heads train`" in caught.value.message
    assert open_head(str(path), Target(OTHER), cache_dir=cache_dir).name == "mine"


@pytest.mark.parametrize("name", ["context_len", "vocab_size"])
def test_a_head_that_contradicts_its_target_is_refused(places, name: str) -> None:
    _, made, cache_dir = places
    path = head_for(made / "mine.safetensors", target=replace(Target().spec, **{name: 300}))
    with pytest.raises(ModelError, match=f"has {name} 300, but 'tiny'"):
        open_head(str(path), Target(), cache_dir=cache_dir)


def test_every_shipped_head_fits_its_catalogue_model_and_is_small() -> None:
    models = {entry.name: entry for entry in CATALOGUE}
    for path in SHIPPED_HEADS.glob("*"):
        head = HeadFile(path)
        assert head.spec.target_sha256 == models[head.name].sha256
        assert head.metadata.target_name == head.name
        assert head.num_bytes <= 25_000_000
        for name in head.stored:
            if head.has_tensor(name):
                head.tensor(name)


def test_heads_are_packaged_with_the_wheel() -> None:
    import tomllib

    root = Path(__file__).parents[3]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    # All files below a packaged folder go along, unless version control ignores them.
    assert wheel["packages"] == ["src/leeway"]
    assert not set(wheel) & {"include", "only-include", "exclude"}
    assert SHIPPED_HEADS.is_relative_to(root / "src" / "leeway")
    ignored = (root / ".gitignore").read_text(encoding="utf-8").split()
    assert not [pattern for pattern in ignored if "safetensors" in pattern or "head" in pattern]
