"""Facts are read, never guessed."""

import os

from leeway.bench.machine import (
    read_cpu_mhz,
    read_cpu_time,
    read_load,
    read_machine,
    read_peak_memory_bytes,
    reset_peak_memory,
)

CPUINFO = """processor\t: 0
model name\t: Quick Chip 9
flags\t\t: fpu avx2 avx512f avx512_vnni

processor\t: 1
model name\t: Quick Chip 9
flags\t\t: fpu avx2 avx512f avx512_vnni
"""


def test_a_machine_with_proc(tmp_path):
    (tmp_path / "cpuinfo").write_text(CPUINFO)
    (tmp_path / "meminfo").write_text("MemTotal:  2048 kB\nMemAvailable: 1024 kB\nHugePages: 0\n")
    machine = read_machine(tmp_path)
    assert machine.cpu_model == "Quick Chip 9"
    assert machine.cpu_features == {
        "avx2": True,
        "avx512": True,
        "vnni": True,
        "avx_vnni": False,
        "bf16": False,
        "amx": False,
    }
    assert (machine.total_memory_bytes, machine.available_memory_bytes) == (2**21, 2**20)
    assert 1 <= machine.usable_threads <= machine.num_threads
    assert {"python", "leeway-llm", "openvino"} <= set(machine.versions)


def test_a_machine_without_proc_says_unknown(tmp_path):
    machine = read_machine(tmp_path)
    assert set(machine.cpu_features.values()) == {None}
    assert machine.total_memory_bytes is None and machine.cpu_model
    assert read_peak_memory_bytes(tmp_path) is None


def test_peak_memory(tmp_path):
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "status").write_text("Name:\tx\nVmHWM:\t    4096 kB\n")
    assert read_peak_memory_bytes(tmp_path) == 2**22


def test_the_mark_of_peak_memory_is_reset_where_that_is_allowed(tmp_path):
    assert not reset_peak_memory(tmp_path)
    (tmp_path / "self").mkdir()
    assert reset_peak_memory(tmp_path)
    assert (tmp_path / "self" / "clear_refs").read_text() == "5"


def test_frequency_is_the_mean_of_the_cores(tmp_path):
    assert read_cpu_mhz(tmp_path) is None
    (tmp_path / "cpuinfo").write_text("cpu MHz\t\t: 2000.5\nflags: a\n\ncpu MHz\t\t: 3000.5\n")
    assert read_cpu_mhz(tmp_path) == 2500.5
    (tmp_path / "cpuinfo").write_text("flags: a\n")
    assert read_cpu_mhz(tmp_path) is None


def test_load(monkeypatch):
    monkeypatch.setattr(os, "getloadavg", lambda: (1.0, 2.0, 3.0))
    assert read_load() == (1.0, 2.0, 3.0)

    def fail():
        raise OSError

    monkeypatch.setattr(os, "getloadavg", fail)
    assert read_load() is None


def test_processor_time_of_others(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sysconf", lambda name: {"SC_CLK_TCK": 100}[name])
    own = os.times_result((3.0, 1.0, 9.0, 9.0, 50.0))
    monkeypatch.setattr(os, "times", lambda: own)
    (tmp_path / "stat").write_text("cpu  1000 200 300 7000 80 10 20 600 5 0\ncpu0 1 2 3\n")
    found = read_cpu_time(tmp_path)
    assert found.others == 10 + 2 + 3 + 0.1 + 0.2 - 3 - 1 and found.stolen == 6
    (tmp_path / "stat").write_text("intr 5\n")
    assert read_cpu_time(tmp_path) is None
    assert read_cpu_time(tmp_path / "none") is None
