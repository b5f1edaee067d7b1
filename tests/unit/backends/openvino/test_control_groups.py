from pathlib import Path

import pytest

from leeway.backends.openvino import compiled
from leeway.backends.openvino.compiled import num_usable_cores
from leeway.backends.openvino.control_groups import ControlGroups
from leeway.backends.openvino.memory import free_memory_bytes

GIB = 2**30
UNLIMITED = 9223372036854771712
"""What version 1 shows where nothing was set."""


def write(folder: Path, **files: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(f"{text}\n")


def groups(tmp_path: Path, *membership: str) -> ControlGroups:
    listed = tmp_path / "membership"
    listed.write_text("".join(f"{line}\n" for line in membership))
    return ControlGroups(tmp_path / "mounts", listed)


def test_without_control_groups_nothing_is_limited(tmp_path: Path) -> None:
    absent = ControlGroups(tmp_path / "a", tmp_path / "b")
    assert absent.free_memory_bytes() is None
    assert absent.num_processors() is None


@pytest.mark.parametrize("mount", ["mounts", "mounts/unified"])
def test_version_2_the_tightest_group_above_the_process_binds(tmp_path: Path, mount: str) -> None:
    root = tmp_path / mount
    write(root, cgroup__controllers="cpu memory")
    stat = f"anon {GIB}\ninactive_file {GIB // 4}\n"
    write(root / "a", memory__max=3 * GIB, memory__current=2 * GIB, cpu__max="150000 100000")
    write(root / "a" / "b", memory__max="max", memory__current=GIB, cpu__max="max 100000")
    found = groups(tmp_path, "0::/a/b")
    assert found.free_memory_bytes() == GIB
    assert found.num_processors() == 2
    write(root / "a", memory__stat=stat)
    assert found.free_memory_bytes() == GIB + GIB // 4
    write(root / "a" / "b", memory__max=GIB + 5, cpu__max="50000 100000")
    assert found.free_memory_bytes() == 5
    assert found.num_processors() == 1


def test_version_2_within_a_container_the_mount_is_the_process_own_group(tmp_path: Path) -> None:
    root = tmp_path / "mounts"
    write(root, cgroup__controllers="memory", memory__max=GIB, memory__current=10)
    write(root, cpu__max="400000 100000")
    for path in ("/", "/docker/0123", "/../../elsewhere"):
        assert groups(tmp_path, f"0::{path}").free_memory_bytes() == GIB - 10
        assert groups(tmp_path, f"0::{path}").num_processors() == 4


def test_version_1_controllers_have_groups_of_their_own(tmp_path: Path) -> None:
    memory, cpu = tmp_path / "mounts" / "memory", tmp_path / "mounts" / "cpu,cpuacct"
    write(memory, memory__limit_in_bytes=UNLIMITED, memory__usage_in_bytes=7 * GIB)
    write(memory / "m", memory__limit_in_bytes=2 * GIB, memory__usage_in_bytes=GIB)
    write(memory / "m", memory__stat="cache 9\ntotal_inactive_file 100\n")
    write(cpu, cpu__cfs_quota_us=-1, cpu__cfs_period_us=100000)
    write(cpu / "c", cpu__cfs_quota_us=250000, cpu__cfs_period_us=100000)
    found = groups(tmp_path, "4:memory:/m", "2:cpu,cpuacct:/c", "0::/")
    assert found.free_memory_bytes() == GIB + 100
    assert found.num_processors() == 3
    outside = groups(tmp_path, "4:memory:/", "2:cpu,cpuacct:/", "0::/")
    assert outside.free_memory_bytes() is None
    assert outside.num_processors() is None


def test_more_than_the_limit_in_use_leaves_nothing(tmp_path: Path) -> None:
    write(tmp_path / "mounts", cgroup__controllers="", memory__max=GIB, memory__current=2 * GIB)
    assert groups(tmp_path, "0::/").free_memory_bytes() == 0


@pytest.mark.parametrize("text", ["", "many", "1 2 3", "max", "0 0"])
def test_files_that_say_nothing_are_no_limit(tmp_path: Path, text: str) -> None:
    write(tmp_path / "mounts", cgroup__controllers="", memory__max=text, cpu__max=text)
    found = groups(tmp_path, "what is this", "0::/")
    assert found.free_memory_bytes() is None
    assert found.num_processors() is None


def test_the_smaller_of_machine_and_group_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(f"MemAvailable: {GIB // 1024} kB\n")
    root = tmp_path / "mounts"
    write(root, cgroup__controllers="", memory__max=3 * GIB, memory__current=0)
    write(root, cpu__max="200000 100000")
    found = groups(tmp_path, "0::/")
    assert free_memory_bytes(meminfo, found) == GIB
    write(root, memory__current=3 * GIB - 12)
    assert free_memory_bytes(meminfo, found) == 12
    monkeypatch.setattr(compiled.os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    assert num_usable_cores(tmp_path / "absent", found) == 2
    write(root, cpu__max="900000 100000")
    assert num_usable_cores(tmp_path / "absent", found) == 4
