"""Blocks that several sequences share, on a tiny random decoder: the same bits as cold ones."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.array_files import ArrayFiles
from tests.unit.backends.openvino.test_backend import IDS, PRECISIONS, one_shot, run

from leeway.backends.base import SequenceInput
from leeway.backends.openvino import OpenVINOBackend


def write_as_decoding_does(backend: OpenVINOBackend, num_tokens: int) -> int:
    """Fill a sequence: a prompt, then blocks of drafts that are rolled back; share what stays."""
    handle = backend.open()
    backend.forward([SequenceInput(handle, IDS[:20], 0)])
    for kept_len in range(20, num_tokens):
        drafts = IDS[100 + kept_len : 101 + kept_len + kept_len % 5]
        run(backend, handle, [IDS[kept_len], *drafts])
        backend.truncate(handle, kept_len + 1)
    backend.share_prefix(handle, IDS[:num_tokens])
    return handle


@pytest.mark.parametrize(("weights", "kv_cache"), PRECISIONS)
def test_t18_what_is_read_behind_shared_blocks_has_the_bits_of_a_cold_reading(
    weights: str, kv_cache: str
) -> None:
    backend = OpenVINOBackend(ArrayFiles("qwen2"), weights=weights, kv_cache=kv_cache)
    expected_logits, expected_hidden = one_shot(backend, IDS[:90])
    writer = write_as_decoding_does(backend, 70)
    for is_closed in (False, True):
        if is_closed:
            backend.close(writer)
        reader, other = backend.open(), backend.open()
        assert backend.take_prefix(reader, IDS[:89]) == 64 == backend.cached_len(reader)
        assert backend.take_prefix(other, [*IDS[:32], *IDS[40:90]]) == 32
        run(backend, other, IDS[120:140])
        logits, hidden = run(backend, reader, IDS[64:90])
        np.testing.assert_array_equal(logits, expected_logits[64:])
        np.testing.assert_array_equal(hidden, expected_hidden[64:])
        backend.check_integrity()
        for handle in (reader, other):
            backend.close(handle)
    backend.check_integrity()


def test_blocks_taken_away_are_read_anew_and_owned_ones_are_left_alone() -> None:
    backend = OpenVINOBackend(ArrayFiles(), num_threads=1, kv_capacity_tokens=5 * 32)
    expected, _ = one_shot(backend, IDS[:90])
    backend.close(write_as_decoding_does(backend, 70))
    owner = backend.open()
    assert backend.take_prefix(owner, IDS[:40]) == 32
    junk = backend.open()
    backend.forward([SequenceInput(junk, IDS[70:198], 0)])  # the other four blocks
    backend.close(junk)
    np.testing.assert_array_equal(run(backend, owner, IDS[32:60])[0], expected[32:60])
    reader = backend.open()
    assert backend.take_prefix(reader, IDS[:89]) == 32
    np.testing.assert_array_equal(run(backend, reader, IDS[32:90])[0], expected[32:])
    backend.check_integrity()
