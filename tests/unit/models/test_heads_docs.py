"""docs/heads.md names what the code has, and is enough to write a head file from."""

import json
import re
from dataclasses import fields
from pathlib import Path

import numpy as np
from tests.support.tiny_heads import SHA256, random_head_tensors, tiny_head_spec

from leeway.core.config_settings import DRAFTERS, SETTINGS
from leeway.models import head_gguf, head_hf
from leeway.models.base import ArchitectureSpec
from leeway.models.head_file import GROUP_LEN, HeadFile
from leeway.models.head_metadata import FORMAT, KEYS, MAX_DEPTH, MAX_LAYERS, VERSION
from leeway.models.head_shapes import head_shapes
from leeway.models.tensor_shapes import FAMILIES

PAGE = (Path(__file__).parents[3] / "docs" / "heads.md").read_text(encoding="utf-8")


def first_cells(title: str) -> list[str]:
    """Names in the first column of the table whose first column has this title."""
    table = PAGE.partition(f"| {title} |")[2].partition("\n\n")[0]
    rows = [line for line in table.splitlines()[2:] if line.startswith("|")]
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])]


def test_metadata_and_decoder_are_exactly_the_codes() -> None:
    assert first_cells("key") == list(KEYS)
    assert sorted(first_cells("member")) == sorted(item.name for item in fields(ArchitectureSpec))
    assert f"format `{FORMAT}`, version `{VERSION}`" in PAGE
    assert f"`1` to `{MAX_DEPTH}`" in PAGE and f"`1` to `{MAX_LAYERS}`" in PAGE
    assert ", ".join(f"`{name}`" for name in FAMILIES[:-1]) + f" or `{FAMILIES[-1]}`" in PAGE


def test_tensors_are_exactly_the_codes() -> None:
    shapes = {"draft_token_ids"}
    for family in FAMILIES:
        shapes |= {name.replace(".0.", ".N.") for name in head_shapes(tiny_head_spec(family))}
    named = first_cells("tensor")
    assert set(named) == shapes and len(named) == len(shapes)
    assert f"groups of {GROUP_LEN}" in PAGE and f"[out, in / {GROUP_LEN}]" in PAGE


def test_checkpoints_and_flags_are_the_codes() -> None:
    for own in head_gguf._HEAD_NAMES:
        assert f"`{own.removesuffix('.weight')}`" in PAGE
    assert set(head_hf._HEAD_NAMES) >= {"input_proj.weight"} and "`input_proj`" in PAGE
    assert "`model.mtp_layers.0.*`" in PAGE
    for flag in re.findall(r"`(--[a-z-]+)", PAGE):
        assert flag.removeprefix("--").replace("-", "_") in SETTINGS
    for drafter in re.findall(r"`--drafter (\w+)`", PAGE):
        assert drafter in DRAFTERS
    assert SETTINGS["drafter"].default == "auto"


def test_a_file_written_from_the_page_alone_is_read(tmp_path: Path) -> None:
    """Bytes put together as the page says, sharing nothing with the project's writer."""
    spec = tiny_head_spec("qwen3", num_draft_tokens=20)
    tensors = random_head_tensors(spec, optional=("output",))
    decoder = {
        "family": "qwen3",
        "num_layers": 1,
        "hidden_size": 64,
        "vocab_size": 265,
        "context_len": 256,
        "num_heads": 4,
        "num_kv_heads": 2,
        "head_size": 32,
        "ffn_size": 96,
        "rope_base": 10000.0,
        "norm_eps": 1e-5,
        "attention_bias": False,
        "qk_norm": True,
        "tied_output": True,
    }
    metadata = {
        "format": "leeway-draft-head",
        "version": "1",
        "target_name": "tiny",
        "target_sha256": SHA256,
        "depth": "2",
        "decoder": json.dumps(decoder),
        "training": "{}",
    }
    arrays = {"draft_token_ids": ("I32", np.arange(0, 40, 2, dtype="<i4"))}
    for name, values in tensors.items():
        arrays[name] = ("F32", values.astype("<f4"))
    codes = np.random.default_rng(0).integers(-127, 128, (64, 128)).astype(np.int8)
    scales = np.random.default_rng(1).random((64, 2)).astype("<f2")
    arrays["project"], arrays["project.scale"] = ("I8", codes), ("F16", scales)
    header, body = {"__metadata__": metadata}, b""
    for name, (kind, array) in arrays.items():
        offsets = [len(body), len(body) + array.nbytes]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": offsets}
        body += array.tobytes()
    text = json.dumps(header).encode()
    path = tmp_path / "by-hand.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)
    head = HeadFile(path)
    assert head.spec.depth == 2 and head.spec.draft_token_ids.tolist() == list(range(0, 40, 2))
    for name, values in tensors.items():
        if name != "project":
            np.testing.assert_array_equal(head.tensor(name), values)
    for row, column in ((0, 0), (5, 63), (5, 64), (63, 127)):
        weight = np.float32(codes[row, column]) * np.float32(scales[row, column // 64])
        assert head.tensor("project")[row, column] == weight
