"""Which memory is moved to huge pages, and that what it holds stays."""

import numpy as np
import pytest

from leeway.backends.openvino.huge_pages import large_ranges, use_huge_pages

MIB = 1 << 20
MAPS = """\
00400000-01c00000 rw-p 00000000 00:00 0                                  [heap]
10000000-10c00000 rw-p 00000000 00:00 0
20100000-20500000 rw-p 00000000 00:00 0
30000000-30c00000 r--p 00000000 00:00 0
40000000-40c00000 rw-s 00000000 00:01 7                                  /dev/shm/x
50000000-50c00000 rw-p 00000000 08:01 9                                  /usr/lib/some.so
60000000-60900000 rw-p 00000000 00:00 0                                  [anon:name]
70000000-70c00000 rw-p 00000000 00:00 0                                  [stack]
"""


def test_only_large_private_memory_without_a_file_is_taken_in_whole_huge_pages():
    assert list(large_ranges(MAPS.splitlines())) == [
        (0x400000, 0x1C00000),
        (0x10000000, 0x10C00000),
        (0x60000000, 0x60800000),
    ]


def test_long_ranges_are_offered_in_parts(tmp_path):
    maps = tmp_path / "maps"
    maps.write_text("10000000-16000000 rw-p 00000000 00:00 0\n")
    offered = []
    assert use_huge_pages(maps, lambda *part: offered.append(part)) == 96 * MIB
    assert offered == [(0x10000000, 64 * MIB), (0x14000000, 32 * MIB)]


def test_a_system_without_a_map_is_left_alone(tmp_path):
    offered = []
    assert use_huge_pages(tmp_path / "none", lambda *part: offered.append(part)) == 0
    assert offered == []


@pytest.mark.skipif("sys.platform != 'linux'", reason="only Linux has /proc/self/maps")
def test_memory_holds_what_it_held():
    held = np.arange(4 * MIB, dtype=np.int64)
    assert use_huge_pages() >= held.nbytes - 4 * MIB
    np.testing.assert_array_equal(held, np.arange(4 * MIB))
