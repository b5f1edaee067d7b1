import hashlib
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.tiny_heads import (
    SHA256,
    changed_json,
    random_head_tensors,
    read_raw,
    tiny_head_spec,
    write_raw,
    write_tiny_head,
)

from leeway.core.errors import ModelError
from leeway.models import head_file
from leeway.models.head_file import GROUP_LEN, HeadFile, write_head

FAMILIES = ("llama", "qwen2", "qwen3")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", ["int8", "f16"])
@pytest.mark.parametrize(
    "optional", [(), ("output",), ("embed", "output", "rope_factors", "state_gain")]
)
@pytest.mark.parametrize("num_draft_tokens", [None, 20])
def test_what_was_written_is_read_back(
    tmp_path: Path, family: str, kind: str, optional: tuple[str, ...], num_draft_tokens: int | None
) -> None:
    spec = tiny_head_spec(family, num_draft_tokens=num_draft_tokens, num_layers=2)
    path = tmp_path / "my-head.safetensors"
    written = write_tiny_head(path, spec, kind=kind, optional=optional)
    head = HeadFile(path)
    assert head.name == "my-head"
    assert head.metadata.target_name == "tiny"
    assert asdict(head.spec.decoder) == asdict(spec.decoder)
    assert (head.spec.depth, head.spec.target_sha256) == (3, SHA256)
    assert head.spec.training == {"steps": 7}
    if num_draft_tokens is None:
        assert head.spec.draft_token_ids is None
    else:
        assert head.spec.draft_token_ids.dtype == np.int64
        np.testing.assert_array_equal(head.spec.draft_token_ids, spec.draft_token_ids)
    for name, values in written.items():
        read = head.tensor(name)
        assert head.has_tensor(name) and read.dtype == np.float32 and read.shape == values.shape
        if values.ndim == 1:
            np.testing.assert_array_equal(read, values)
        elif kind == "f16" or values.shape[1] % GROUP_LEN:
            np.testing.assert_array_equal(read, values.astype(np.float16).astype(np.float32))
        else:
            groups = np.abs(values).reshape(len(values), -1, GROUP_LEN).max(axis=2)
            error = np.abs(read - values).reshape(len(values), -1, GROUP_LEN).max(axis=2)
            # Half a step of 1/127, and what rounding the scale to 11 bits adds at the ends.
            assert (error <= groups * (0.5 / 127 + 2**-11)).all()
            assert (error > 0).any()


def test_the_safetensors_package_reads_what_was_written(tmp_path: Path) -> None:
    spec = tiny_head_spec(num_draft_tokens=20)
    path = tmp_path / "h.safetensors"
    written = write_tiny_head(path, spec, optional=("output",))
    metadata, arrays = read_raw(path)
    assert metadata["format"] == "leeway-draft-head" and metadata["version"] == "1"
    assert json.loads(metadata["decoder"]) == asdict(spec.decoder)
    assert arrays["draft_token_ids"].dtype == np.int32
    scales = arrays["project.scale"]
    assert arrays["project"].dtype == np.int8 and scales.dtype == np.float16
    # One pair of numbers decoded by hand: row 3, column 70 lies in the second group of its row.
    decoded = np.float32(arrays["project"][3, 70]) * np.float32(scales[3, 1])
    assert decoded == HeadFile(path).tensor("project")[3, 70]
    assert decoded == pytest.approx(written["project"][3, 70], abs=0.01)
    assert np.abs(arrays["project"]).max() == 127


def test_a_file_of_the_safetensors_package_is_read(tmp_path: Path) -> None:
    path = tmp_path / "h.safetensors"
    write_tiny_head(path, tiny_head_spec(num_draft_tokens=20))
    again = tmp_path / "again.safetensors"
    write_raw(again, *read_raw(path))
    for name in ("embed_norm", "project", "layers.0.down"):
        np.testing.assert_array_equal(HeadFile(again).tensor(name), HeadFile(path).tensor(name))


def test_numbers_that_int8_holds_exactly_come_back_exactly(tmp_path: Path) -> None:
    spec = tiny_head_spec()
    tensors = random_head_tensors(spec)
    codes = np.arange(64 * 128).reshape(64, 128) % 255 - 127
    tensors["project"] = codes.astype(np.float32) * np.float32(0.25)
    tensors["layers.0.o"] = np.zeros((64, 64), dtype=np.float32)
    write_head(tmp_path / "h.safetensors", tensors=tensors, spec=spec, target_name="t", kind="int8")
    head = HeadFile(tmp_path / "h.safetensors")
    np.testing.assert_array_equal(head.tensor("layers.0.o"), tensors["layers.0.o"])
    full = (np.abs(codes).reshape(64, 2, 64).max(axis=2) == 127).repeat(64, axis=1).reshape(64, 128)
    assert full.any()
    np.testing.assert_array_equal(head.tensor("project")[full], tensors["project"][full])


def test_equal_heads_give_equal_bytes_and_the_checksum_is_theirs(tmp_path: Path) -> None:
    first, second = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    write_tiny_head(first)
    write_tiny_head(second)
    assert first.read_bytes() == second.read_bytes()
    assert HeadFile(first).sha256() == hashlib.sha256(first.read_bytes()).hexdigest()
    write_tiny_head(second, seed=1)
    assert HeadFile(first).sha256() != HeadFile(second).sha256()


def test_tensors_are_aligned_to_their_items(tmp_path: Path) -> None:
    write_tiny_head(tmp_path / "h.safetensors", tiny_head_spec(num_draft_tokens=21))
    for tensor in HeadFile(tmp_path / "h.safetensors").stored.values():
        width = {"I8": 1, "F16": 2}.get(tensor.type_name, 4)
        assert tensor.data.ctypes.data % width == 0


@pytest.mark.parametrize("name", ["nope", "draft_token_ids", "project.scale", "output"])
def test_what_is_no_tensor_of_the_head_is_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / "h.safetensors"
    write_tiny_head(path, tiny_head_spec(num_draft_tokens=20))
    head = HeadFile(path)
    assert not head.has_tensor(name)
    with pytest.raises(ModelError, match=f"has no tensor '{name}'"):
        head.tensor(name)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": None}, "is not a draft head: it says of no format, not 'leeway-draft-head'"),
        ({"format": "pt"}, "its format is 'pt'"),
        ({"version": "2"}, "version '2' of the head format; version '1' can be read"),
        ({"version": None}, "version None"),
        ({"target_name": None}, "lacks the string 'target_name'"),
        ({"training": None}, "lacks the string 'training'"),
        ({"licence": "x"}, "unknown metadata 'licence'; known are format, version"),
        ({"target_sha256": "AB" * 32}, "target_sha256 is 'ABAB"),
        ({"target_sha256": "ab"}, "64 lower-case hexadecimal digits"),
        ({"depth": "0"}, "depth is '0'; it must be a whole number from 1 to 16"),
        ({"depth": "17"}, "depth is '17'"),
        ({"depth": "3.0"}, "depth is '3.0'"),
        ({"training": "{"}, "its training is not JSON"),
        ({"training": "[]"}, "its training is not a JSON object"),
        ({"decoder": "llama"}, "its decoder is not JSON"),
    ],
)
def test_wrong_metadata_is_named(
    tmp_path: Path, changes: dict[str, str | None], message: str
) -> None:
    path = tmp_path / "h.safetensors"
    write_tiny_head(path)
    metadata, arrays = read_raw(path)
    merged = {key: value for key, value in (metadata | changes).items() if value is not None}
    write_raw(path, merged, arrays)
    with pytest.raises(ModelError, match=message) as caught:
        HeadFile(path)
    assert str(path) in caught.value.message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"norm_eps": None}, "decoder lacks 'norm_eps'"),
        ({"sliding_window": 5}, "unknown number 'sliding_window'"),
        ({"hidden_size": "64"}, "decoder has hidden_size '64'; it must be a whole number > 0"),
        ({"hidden_size": True}, "hidden_size True"),
        ({"num_heads": 0}, "num_heads 0"),
        ({"rope_base": -1.0}, "rope_base -1.0; it must be a number > 0"),
        ({"qk_norm": 1}, "qk_norm 1; it must be true or false"),
        ({"family": 3}, "family 3; it must be a string"),
        ({"family": "mamba"}, "family 'mamba'; known are llama, qwen2"),
        ({"num_layers": 10**12}, "has 1000000000000 layers; a head has at most 64"),
        ({"num_kv_heads": 3}, "num_heads 4, num_kv_heads 3"),
        ({"hidden_size": 128}, r"tensor 'embed_norm' .* has shape \(64,\), .* asks for \(128,\)"),
        ({"num_layers": 2}, "has no tensor 'layers.1.attn_norm'"),
        ({"attention_bias": True}, "has no tensor 'layers.0.q_bias'"),
    ],
)
def test_a_wrong_decoder_is_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = tmp_path / "h.safetensors"
    write_tiny_head(path)
    metadata, arrays = read_raw(path)
    metadata["decoder"] = changed_json(metadata["decoder"], **changes)
    write_raw(path, metadata, arrays)
    with pytest.raises(ModelError, match=message):
        HeadFile(path)


def int32(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int32)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"final_norm": None}, r"has no tensor 'final_norm' \(final_norm, shape \(64,\)\)"),
        ({"layers.0.up": None, "layers.0.up.scale": None}, "has no tensor 'layers.0.up'"),
        ({"layers.1.up": np.zeros((96, 64), np.float32)}, "'layers.1.up' is one too many"),
        ({"bias": np.zeros(3, np.float32)}, "'bias' is one too many"),
        ({"final_norm": np.ones((64, 1), np.float32)}, r"'final_norm' .* has shape \(64, 1\)"),
        ({"output": np.zeros((21, 64), np.float16)}, r"'output' .* has shape \(21, 64\).*\(20, 64"),
        ({"project.scale": None}, "'project.scale' is missing; it must be F16 of shape"),
        (
            {"project.scale": np.zeros((64, 1), np.float16)},
            r"'project.scale' is F16 of shape \(64, 1\); it must be F16 of shape \(64, 2\)",
        ),
        ({"project.scale": np.zeros((64, 2), np.float32)}, "'project.scale' is F32"),
        ({"project": np.zeros((64, 128), np.float32)}, "'project.scale' scales nothing"),
        ({"x.scale": np.zeros((64, 2), np.float16)}, "'x.scale' scales nothing"),
        ({"layers.0.down": np.zeros((64, 96), np.int8)}, "rows divide into groups of 64"),
        ({"final_norm": np.zeros(64, np.int8)}, r"'final_norm' of shape \(64,\) is stored as I8"),
        ({"final_norm": np.zeros(64, np.int32)}, "'final_norm' is stored as I32"),
        ({"final_norm": np.zeros(64, np.float64)}, "'final_norm' is stored as F64"),
        ({"draft_token_ids": int32(1, 3, 3)}, "is not ascending: 3 stands before 3"),
        ({"draft_token_ids": int32(5, 3)}, "is not ascending: 5 stands before 3"),
        ({"draft_token_ids": int32(-1, 3)}, "has -1, which is outside the vocabulary of 265"),
        ({"draft_token_ids": int32(0, 265)}, "has 265, which is outside"),
        ({"draft_token_ids": int32()}, "draft_token_ids is empty"),
        ({"draft_token_ids": int32(1, 2).reshape(1, 2)}, r"is I32 of shape \(1, 2\)"),
        ({"draft_token_ids": np.zeros(2, np.int8)}, r"is I8 of shape \(2,\); it must be I32"),
    ],
)
def test_wrong_tensors_are_named(
    tmp_path: Path, changes: dict[str, np.ndarray | None], message: str
) -> None:
    path = tmp_path / "h.safetensors"
    write_tiny_head(path, tiny_head_spec(num_draft_tokens=20))
    metadata, arrays = read_raw(path)
    merged = {key: value for key, value in (arrays | changes).items() if value is not None}
    write_raw(path, metadata, merged)
    with pytest.raises(ModelError, match=message) as caught:
        HeadFile(path)
    assert str(path) in caught.value.message


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["final_norm", "project.scale"])
def test_numbers_that_are_not_finite_are_refused(tmp_path: Path, name: str, value: float) -> None:
    path = tmp_path / "h.safetensors"
    write_tiny_head(path)
    metadata, arrays = read_raw(path)
    arrays[name].flat[0] = value
    write_raw(path, metadata, arrays)
    with pytest.raises(ModelError, match="holds a number that is not finite"):
        HeadFile(path).tensor(name.removesuffix(".scale"))


def test_broken_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "h.safetensors"
    write_tiny_head(path)
    whole = path.read_bytes()
    broken = {
        "is empty": b"",
        "is truncated: its header": whole[:100],
        "is truncated: tensor": whole[:-1],
        "is corrupt: its tensors take": whole + b"\0",
        "its header is not JSON": whole[:8] + b"x" + whole[9:],
        "is corrupt: its __metadata__": b"\x12\0\0\0\0\0\0\0" + b'{"__metadata__":3}',
    }
    for message, data in broken.items():
        path.write_bytes(data)
        with pytest.raises(ModelError, match=message):
            HeadFile(path)
    with pytest.raises(ModelError, match="cannot read"):
        HeadFile(tmp_path / "missing.safetensors")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target_sha256": None}, "target_sha256 is ''"),
        ({"depth": 0}, "depth is '0'"),
        ({"draft_token_ids": np.array([3, 2])}, "is not ascending"),
        ({"training": {"x": float("nan")}}, "must be JSON"),
        ({"training": {"x": {1}}}, "must be JSON"),
    ],
)
def test_what_could_not_be_read_is_not_written(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    spec = replace(tiny_head_spec(), **changes)
    with pytest.raises(ModelError, match=message):
        write_tiny_head(tmp_path / "h.safetensors", spec)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("project", np.nan, "'project.scale' holds a number that is not finite in float16"),
        ("project", 1e8, "'project.scale' holds a number that is not finite in float16"),
        ("layers.0.down", 1e8, "'layers.0.down' holds a number that is not finite in float16"),
        ("final_norm", np.inf, "'final_norm' holds a number that is not finite in float32"),
    ],
)
def test_numbers_without_a_form_are_not_written(
    tmp_path: Path, name: str, value: float, message: str
) -> None:
    spec = tiny_head_spec()
    tensors = random_head_tensors(spec)
    tensors[name].flat[5] = value
    path = tmp_path / "h.safetensors"
    with pytest.raises(ModelError, match=message):
        write_head(path, tensors=tensors, spec=spec, target_name="t", kind="int8")
    tensors.pop(name)
    with pytest.raises(ModelError, match=f"the head for 't' has no tensor '{name}'"):
        write_head(path, tensors=tensors, spec=spec, target_name="t", kind="int8")
    assert not list(tmp_path.iterdir())


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "h.safetensors"
    write_tiny_head(path)
    before = path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(head_file.os, "fsync", full)
    with pytest.raises(ModelError, match=r"cannot write .*: No space left"):
        write_tiny_head(path, seed=1)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
