import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.tiny_models import write_safetensors

from leeway.core.errors import ModelError
from leeway.models.safetensors_container import read_safetensors


def entry(type_name: str, shape: list[int], begin: int, end: int) -> dict[str, Any]:
    return {"dtype": type_name, "shape": shape, "data_offsets": [begin, end]}


def pack(header: Any, body: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


@pytest.mark.parametrize("type_name", ["F32", "F16", "BF16"])
def test_values_are_read_back(tmp_path: Path, type_name: str) -> None:
    exact = {"w": np.array([[1.5, -2.0], [0.25, 0.0]], dtype=np.float32)}
    exact["b"] = np.array([-0.5], dtype=np.float32)
    write_safetensors(tmp_path / "m.safetensors", exact, type_name)
    read = read_safetensors(tmp_path / "m.safetensors")
    assert set(read) == {"w", "b"}
    for name, values in exact.items():
        np.testing.assert_array_equal(read[name].values(), values)
        assert read[name].values().flags.writeable


def test_metadata_is_no_tensor(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(
        pack({"__metadata__": {"format": "pt"}, "w": entry("F32", [], 0, 4)}, bytes(4))
    )
    assert list(read_safetensors(path)) == ["w"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"1234", "not a safetensors file: it has 4 bytes"),
        (b"\xff" * 40, "its header would be"),
        (pack({"w": entry("F32", [1], 0, 4)})[:20], "is truncated: its header needs"),
        (pack(b"{no json"), "its header is not JSON"),
        (pack([]), "its header is not a JSON object"),
        (pack({"w": 3}), "its entry of 'w' is broken"),
        (pack({"w": {"dtype": "F32"}}), "its entry of 'w' is broken"),
        (pack({"w": entry("F8_E4M3", [4], 0, 4)}, bytes(4)), "'w' is stored as F8_E4M3; F32, F16"),
        (pack({"w": entry("F32", [2], 0, 8)}, bytes(4)), "is truncated: tensor 'w' ends at byte 8"),
        (pack({"w": entry("F32", [2], 0, 4)}, bytes(8)), "is corrupt: tensor 'w'"),
        (pack({"w": entry("F32", [1], -4, 0)}, bytes(8)), "is corrupt: tensor 'w'"),
    ],
)
def test_broken_files_are_refused(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(data)
    with pytest.raises(ModelError, match=message) as caught:
        read_safetensors(path)
    assert str(path) in caught.value.message
