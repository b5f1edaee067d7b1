import struct
from pathlib import Path

import numpy as np
import pytest
from tests.support.tiny_models import write_tiny_gguf

from leeway.core.errors import ModelError
from leeway.models.gguf_container import read_container


def header(version: int = 3, num_tensors: int = 0, num_pairs: int = 0) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, num_tensors, num_pairs)


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def tensor(name: str, shape: tuple[int, ...], kind: int, offset: int = 0) -> bytes:
    lengths = struct.pack(f"<{len(shape)}Q", *shape)
    return text(name) + struct.pack("<I", len(shape)) + lengths + struct.pack("<IQ", kind, offset)


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_every_kind_of_metadata_is_read(tmp_path: Path) -> None:
    pairs = [
        text("u8") + struct.pack("<IB", 0, 200),
        text("i8") + struct.pack("<Ib", 1, -5),
        text("u16") + struct.pack("<IH", 2, 60000),
        text("i16") + struct.pack("<Ih", 3, -300),
        text("u32") + struct.pack("<II", 4, 4_000_000_000),
        text("i32") + struct.pack("<Ii", 5, -70000),
        text("f32") + struct.pack("<If", 6, 0.5),
        text("yes") + struct.pack("<I?", 7, True),
        text("text") + struct.pack("<I", 8) + text("naïve 🙂"),
        text("numbers") + struct.pack("<IIQ3i", 9, 5, 3, -1, 0, 7),
        text("words") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("bé"),
        text("nested") + struct.pack("<IIQ", 9, 9, 1) + struct.pack("<IQ2i", 5, 2, 1, 2),
        text("u64") + struct.pack("<IQ", 10, 1 << 60),
        text("i64") + struct.pack("<Iq", 11, -(1 << 60)),
        text("f64") + struct.pack("<Id", 12, 0.1),
    ]
    data = header(num_pairs=len(pairs)) + b"".join(pairs)
    found = dict(read_container(write(tmp_path / "m.gguf", data)).metadata)
    assert found.pop("numbers").tolist() == [-1, 0, 7]
    assert [part.tolist() for part in found.pop("nested")] == [[1, 2]]
    assert found == {
        "u8": 200,
        "i8": -5,
        "u16": 60000,
        "i16": -300,
        "u32": 4_000_000_000,
        "i32": -70000,
        "f32": 0.5,
        "yes": True,
        "text": "naïve 🙂",
        "words": ["a", "bé"],
        "u64": 1 << 60,
        "i64": -(1 << 60),
        "f64": 0.1,
    }


def test_tensors_are_placed_by_alignment_and_offset(tmp_path: Path) -> None:
    pairs = text("general.alignment") + struct.pack("<II", 4, 64)
    infos = tensor("a", (3,), 0) + tensor("b", (2, 2), 0, offset=64)
    head = header(num_tensors=2, num_pairs=1) + pairs + infos
    body = bytearray(-len(head) % 64 + 64 + 16)
    start = -len(head) % 64
    body[start : start + 12] = np.array([1, 2, 3], dtype="<f4").tobytes()
    body[start + 64 : start + 80] = np.array([4, 5, 6, 7], dtype="<f4").tobytes()
    tensors = read_container(write(tmp_path / "m.gguf", head + body)).tensors
    assert tensors["a"].data.view("<f4").tolist() == [1, 2, 3]
    assert tensors["b"].data.view("<f4").tolist() == [4, 5, 6, 7]
    assert tensors["b"].shape == (2, 2)


def test_shape_is_slowest_axis_first(tmp_path: Path) -> None:
    data = header(num_tensors=1) + tensor("w", (8, 2), 0)
    path = write(tmp_path / "m.gguf", data + bytes(-len(data) % 32 + 64))
    assert read_container(path).tensors["w"].shape == (2, 8)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", r"not a GGUF file: it begins with b''"),
        (b"GG", r"not a GGUF file"),
        (b"PK\x03\x04 a wheel", r"not a GGUF file: it begins with b'PK"),
        (b"GGUF", r"truncated or corrupt"),
        (header(version=1), r"GGUF version 1; versions 2 and 3"),
        (header(version=3 << 24), r"big-endian"),
        (header(num_pairs=1), r"truncated or corrupt: its header runs past"),
        (header(num_pairs=1) + struct.pack("<Q", 1 << 62), r"header runs past the end"),
        (header(num_pairs=1) + text("k") + struct.pack("<I", 99), r"unknown metadata type 99"),
        (
            header(num_pairs=1) + text("k") + struct.pack("<IIQ", 9, 4, 1 << 61),
            r"header runs past the end",
        ),
        (
            header(num_pairs=1) + text("k") + struct.pack("<IIQ", 9, 8, 5) + text("one"),
            r"header runs past the end",
        ),
        (
            header(num_pairs=1) + text("k") + struct.pack("<IIQ", 9, 8, 1) + b"\x01" + bytes(7),
            r"header runs past the end",
        ),
        (
            header(num_pairs=1) + struct.pack("<Q", 1) + b"\xff",
            r"is corrupt: a string near byte \d+ is not UTF-8",
        ),
        (
            header(num_pairs=1) + text("k") + struct.pack("<IIQQ", 9, 8, 1, 1) + b"\xff",
            r"not UTF-8",
        ),
        (
            header(num_pairs=1) + text("general.alignment") + struct.pack("<II", 4, 0),
            r"alignment 0",
        ),
        (
            header(num_pairs=1) + text("general.alignment") + struct.pack("<I", 8) + text("x"),
            r"alignment 'x'",
        ),
        (header(num_tensors=1) + tensor("w", (4,), 999), r"'w' has unknown quantisation type 999"),
        (header(num_tensors=1) + tensor("w", (33,), 8), r"'w' of shape \(33,\) .* Q8_0 blocks"),
        (header(num_tensors=1) + tensor("w", (0, 4), 0), r"empty dimension"),
        (header(num_tensors=1) + tensor("w", (1,) * 5, 0), r"has 5 dimensions"),
        (header(num_tensors=1) + tensor("w", (4,), 0), r"is truncated: tensor 'w' ends at byte"),
        (
            header(num_tensors=1) + tensor("w", (1 << 40, 1 << 20), 0),
            r"is truncated: tensor 'w' ends at byte",
        ),
    ],
)
def test_broken_files_are_refused(tmp_path: Path, data: bytes, message: str) -> None:
    path = write(tmp_path / "m.gguf", data)
    with pytest.raises(ModelError, match=message) as caught:
        read_container(path)
    assert str(path) in caught.value.message


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = write_tiny_gguf(tmp_path / "m.gguf").path.read_bytes()
    path = tmp_path / "cut.gguf"
    for length in [*range(0, 600, 7), *range(600, len(whole), 4999), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(ModelError, match=r"truncated|not a GGUF"):
            read_container(path)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot read .*missing\.gguf: No such file"):
        read_container(tmp_path / "missing.gguf")
