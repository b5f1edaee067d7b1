from pathlib import Path

import pytest

from leeway.backends.openvino import memory
from leeway.backends.openvino.compiled import num_usable_cores
from leeway.backends.openvino.control_groups import ControlGroups
from leeway.backends.openvino.memory import free_memory_bytes, lazy_zeros, num_cache_blocks
from leeway.core.errors import ConfigError

NO_GROUPS = ControlGroups(Path("/absent"), Path("/absent"))


def test_free_memory_is_what_the_kernel_calls_available(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:  900 kB\nMemFree:  100 kB\nMemAvailable:  500 kB\n")
    assert free_memory_bytes(meminfo, NO_GROUPS) == 500 * 1024


@pytest.mark.parametrize("text", [None, "MemTotal: 900 kB\n", "MemAvailable: many kB\n"])
def test_free_memory_falls_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    meminfo = tmp_path / "meminfo"
    if text is not None:
        meminfo.write_text(text)
    numbers = {"SC_AVPHYS_PAGES": 7, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(memory.os, "sysconf", numbers.__getitem__)
    assert free_memory_bytes(meminfo, NO_GROUPS) == 7 * 4096
    monkeypatch.delattr(memory.os, "sysconf")
    assert free_memory_bytes(meminfo, NO_GROUPS) == memory.FALLBACK_FREE_BYTES


def blocks(**changes: int | None) -> int:
    sizes = {
        "block_bytes": 100,
        "blocks_per_sequence": 10,
        "max_num_seqs": 4,
        "kv_memory_bytes": None,
        "free_bytes": 5000,
    }
    return num_cache_blocks(**(sizes | changes))


def test_default_is_a_share_of_the_free_memory_bounded_by_need() -> None:
    assert blocks(free_bytes=5000) == 25
    assert blocks(free_bytes=8199) == 40
    assert blocks(free_bytes=10**9) == 40
    assert blocks(free_bytes=0) == 1


def test_stated_memory_is_used_to_the_last_whole_block() -> None:
    assert blocks(kv_memory_bytes=100) == 1
    assert blocks(kv_memory_bytes=12399, free_bytes=12399) == 123


def test_more_than_is_free_is_refused() -> None:
    with pytest.raises(ConfigError, match="5001 is more than the 5000 bytes"):
        blocks(kv_memory_bytes=5001)


def test_memory_for_no_block_is_refused() -> None:
    with pytest.raises(ConfigError, match="99 holds not one cache block; at least 100 bytes"):
        blocks(kv_memory_bytes=99)


def test_zeros_begin_on_a_page() -> None:
    for size in (1, 5000):
        array = lazy_zeros(size)
        assert array.size == size
        assert array.ctypes.data % memory.PAGE_BYTES == 0
        assert not array.any()


def test_hardware_threads_of_one_core_count_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory.os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    for cpu, siblings in enumerate(("0,2", "1,3", "0,2", "1,3")):
        folder = tmp_path / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{siblings}\n")
    assert num_usable_cores(tmp_path, NO_GROUPS) == 2
    assert num_usable_cores(tmp_path / "absent", NO_GROUPS) == 4
    monkeypatch.delattr(memory.os, "sched_getaffinity")
    monkeypatch.setattr(memory.os, "cpu_count", lambda: 6)
    assert num_usable_cores(tmp_path, NO_GROUPS) == 6
