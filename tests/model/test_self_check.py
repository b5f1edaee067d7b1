"""The self-check on a real model: the runtime gives it no cause to decline a lane."""

from __future__ import annotations

from pathlib import Path

import pytest

from leeway.backends.openvino import OpenVINOBackend
from leeway.engine.self_check import check_lanes
from leeway.models.open import open_model

pytestmark = [pytest.mark.model, pytest.mark.timeout(900)]


def assert_lanes_agree(path: Path, weights: str, kv_cache: str) -> None:
    """No lane is declined, and row shape `stable` leaves no difference at all."""
    backend = OpenVINOBackend(
        open_model(str(path)), weights=weights, kv_cache=kv_cache, kv_memory_bytes=2**26
    )
    fast = check_lanes(backend, 4, "fast", backend.set_row_shape)
    assert fast.declined is None
    stable = check_lanes(backend, 4, "stable", backend.set_row_shape)
    assert stable.declined is None and stable.has_same_bits
    assert stable.largest_tv == 0


@pytest.mark.parametrize("kv_cache", ["16bit", "u8"])
def test_t25_the_lanes_of_smollm2_agree(smollm2_path: Path, kv_cache: str) -> None:
    assert_lanes_agree(smollm2_path, "int8", kv_cache)
