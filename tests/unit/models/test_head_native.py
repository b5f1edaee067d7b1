"""Heads inside checkpoints: what the readers give is what the checkpoint's own names mean."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.native_heads import (
    MIMO_SPEC,
    MiMoReference,
    NextNReference,
    mimo_head_tensors,
    nextn_head_tensors,
    write_mimo_folder,
    write_nextn_gguf,
)
from tests.support.numpy_reference import reference_forward, reference_head
from tests.support.tiny_models import write_tiny_gguf, write_tiny_hf_folder

from leeway.core.errors import ModelError
from leeway.models.base import ModelFiles
from leeway.models.gguf import GGUFFiles
from leeway.models.head_base import HeadFiles
from leeway.models.heads import find_head, native_head, open_head
from leeway.models.hf_folder import HFFolder

FAMILIES = ("llama", "qwen2", "qwen3")
IDS = [5, 17, 200, 3, 99, 42, 42, 260]


def worst(left: np.ndarray, right: np.ndarray) -> float:
    return float(np.abs(left - right).max() / np.abs(right).max())


def distances(
    files: ModelFiles, head: HeadFiles, reference: MiMoReference | NextNReference
) -> list[float]:
    """Largest relative differences: the body's logits, the head's at depths 1, 2 and 3."""
    logits, hidden = reference_forward(files, IDS)
    found = [worst(logits, reference.body_logits(IDS))]
    states, own = hidden[:-1], reference.body_states(IDS)[:-1]
    for depth in range(3):
        next_ids = IDS[1 + depth :]
        drafted, states = reference_head(head, files, states, next_ids)
        expected = reference.draft(own, next_ids)
        found.append(worst(drafted, expected.logits))
        states, own = states[:-1], expected.states[:-1]
    return found


@pytest.mark.parametrize("type_name", ["F32", "F16"])
def test_a_mimo_folder_with_its_head(tmp_path: Path, type_name: str) -> None:
    stored = write_mimo_folder(tmp_path / "mimo", type_name=type_name)
    files = HFFolder(tmp_path / "mimo")
    assert files.spec == MIMO_SPEC
    head = native_head(files)
    assert (head.name, head.spec.depth, head.spec.target_sha256) == ("mimo-native", 1, None)
    assert head.spec.draft_token_ids is None and head.spec.training == {}
    assert not head.has_tensor("embed") and not head.has_tensor("output")
    assert max(distances(files, head, MiMoReference(stored))) < 2e-5


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("optional", [False, True])
@pytest.mark.parametrize("scaled", [False, True])
def test_a_gguf_file_with_its_head(
    tmp_path: Path, family: str, optional: bool, scaled: bool
) -> None:
    head_tensors = nextn_head_tensors(family, optional=optional)
    factors = np.linspace(1, 4, 16 if family == "qwen3" else 8, dtype=np.float32)
    stored = write_nextn_gguf(
        tmp_path / "m.gguf", family, head_tensors, rope_factors=factors if scaled else None
    )
    files = GGUFFiles(tmp_path / "m.gguf")
    assert files.spec.num_layers == 2
    head = native_head(files)
    assert (head.name, head.spec.depth, head.spec.target_sha256) == ("m-native", 1, None)
    assert head.has_tensor("embed") == head.has_tensor("output") == optional
    assert head.has_tensor("rope_factors") == scaled
    assert not head.has_tensor("state_gain")
    assert max(distances(files, head, NextNReference(stored, family))) < 2e-5


@pytest.mark.parametrize(
    ("fault", "depth"),
    [("columns", 1), ("states behind the norm", 1), ("norms", 1), ("state norm", 2)],
)
def test_a_wrong_reading_of_a_mimo_head_is_caught(tmp_path: Path, fault: str, depth: int) -> None:
    """The comparison above fails by far where the head is read in another plausible way."""
    stored = write_mimo_folder(tmp_path / "mimo")
    files = HFFolder(tmp_path / "mimo")
    head = native_head(files)

    class Misread:
        spec, name = head.spec, head.name

        def has_tensor(self, name: str) -> bool:
            return head.has_tensor(name) and (
                name != "state_gain" or fault != "states behind the norm"
            )

        def tensor(self, name: str) -> np.ndarray:
            if fault == "norms" and name in ("embed_norm", "hidden_norm"):
                name = "hidden_norm" if name == "embed_norm" else "embed_norm"
            if fault == "state norm" and name == "state_gain":
                return head.tensor(name) * np.linspace(0.5, 2, 64, dtype=np.float32)
            values = head.tensor(name)
            if fault == "columns" and name == "project":
                return np.concatenate([values[:, 64:], values[:, :64]], axis=1)
            return values

    found = distances(files, Misread(), MiMoReference(stored))
    assert found[0] < 2e-5 and found[depth] > 1e-2


def test_a_wrong_column_order_of_a_gguf_head_is_caught(tmp_path: Path) -> None:
    stored = write_nextn_gguf(tmp_path / "m.gguf", "llama")
    files = GGUFFiles(tmp_path / "m.gguf")
    swapped = dict(stored)
    project = stored["blk.2.nextn.eh_proj.weight"]
    swapped["blk.2.nextn.eh_proj.weight"] = np.roll(project, 64, axis=1)
    found = distances(files, native_head(files), NextNReference(swapped, "llama"))
    assert found[0] < 2e-5 and found[1] > 1e-2


def test_a_mimo_head_is_known_by_its_own_tensors_whole(tmp_path: Path) -> None:
    def head_of(name: str, tensors: dict[str, Any] | None = None) -> HeadFiles:
        write_mimo_folder(tmp_path / name, tensors)
        return native_head(HFFolder(tmp_path / name))

    first, same = head_of("a"), head_of("b")
    assert first.sha256() == same.sha256() and len(first.sha256()) == 64
    assert first.sha256() != head_of("c", mimo_head_tensors(seed=4)).sha256()
    with pytest.raises(ModelError, match=r"the draft head of .* has no tensor 'output'"):
        first.tensor("output")


def test_models_without_a_head_have_none(tmp_path: Path) -> None:
    write_mimo_folder(tmp_path / "mimo", {}, config={"num_nextn_predict_layers": 1})
    for files in (
        HFFolder(tmp_path / "mimo"),
        HFFolder(write_tiny_hf_folder(tmp_path / "plain").path),
        GGUFFiles(write_tiny_gguf(tmp_path / "plain.gguf").path),
        GGUFFiles(
            write_tiny_gguf(
                tmp_path / "trunk.gguf",
                metadata={"llama.block_count": 3, "llama.nextn_predict_layers": 1},
            ).path
        ),
    ):
        assert files.spec.num_layers == 2
        assert native_head(files) is None
        assert find_head(files, tmp_path) is None


def test_the_models_own_head_goes_before_all_others(tmp_path: Path) -> None:
    write_nextn_gguf(tmp_path / "m.gguf", "qwen3")
    files = GGUFFiles(tmp_path / "m.gguf")
    from tests.support.tiny_heads import tiny_head_spec, write_tiny_head

    made = tmp_path / "heads"
    made.mkdir()
    spec = tiny_head_spec(target=files.spec, target_sha256=files.sha256())
    write_tiny_head(made / "other.safetensors", spec)
    assert find_head(files, tmp_path).name == "m-native"
    assert open_head("other", files, cache_dir=tmp_path).name == "other"


def several(tensors: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    return tensors | {name.replace(old, new): values for name, values in tensors.items()}


def test_several_modules_of_different_weights_are_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    head = several(mimo_head_tensors(), "layers.0", "layers.1")
    write_mimo_folder(tmp_path / "mimo", head)
    head = several(nextn_head_tensors("llama"), "blk.2", "blk.3")
    write_nextn_gguf(tmp_path / "m.gguf", "llama", head, num_modules=2)
    for files in (HFFolder(tmp_path / "mimo"), GGUFFiles(tmp_path / "m.gguf")):
        assert files.spec.num_layers == 2  # the body loads all the same
        with pytest.raises(ModelError, match="2 draft modules of different weights"):
            native_head(files)
        caplog.clear()
        assert find_head(files, tmp_path) is None
        assert "passed over the model's own draft head" in caplog.text


@pytest.mark.parametrize(
    ("omitted", "added", "message"),
    [
        ("input_proj.weight", None, "has no tensor 'project'"),
        ("self_attn.k_proj.bias", None, "has no tensor 'layers.0.k_bias'"),
        (None, "shared_head.weight", r"'model\.mtp_layers\.0\.shared_head\.weight' has no place"),
        ("mlp.up_proj.weight", "mlp.up_proj.weight", r"up_proj\.weight' .* has shape \(3,\)"),
    ],
)
def test_an_incomplete_mimo_head_is_named(
    tmp_path: Path, omitted: str | None, added: str | None, message: str
) -> None:
    head = mimo_head_tensors()
    head.pop(f"model.mtp_layers.0.{omitted}", None)
    if added is not None:
        head[f"model.mtp_layers.0.{added}"] = np.ones(3, dtype=np.float32)
    write_mimo_folder(tmp_path / "mimo", head)
    with pytest.raises(ModelError, match=message):
        native_head(HFFolder(tmp_path / "mimo"))


def test_head_tensors_of_other_folders_have_no_place(tmp_path: Path) -> None:
    write_mimo_folder(tmp_path / "m", config={"model_type": "qwen2"})
    with pytest.raises(ModelError, match=r"'model\.mtp_layers\.0\..*' has no place"):
        HFFolder(tmp_path / "m")


def test_a_last_norm_that_loses_a_state_is_refused(tmp_path: Path) -> None:
    write_mimo_folder(tmp_path / "mimo")
    files = HFFolder(tmp_path / "mimo")
    whole = files.tensor

    def blanked(name: str) -> np.ndarray:
        values = whole(name)
        if name == "final_norm":
            values[7] = 0
        return values

    files.tensor = blanked
    with pytest.raises(ModelError, match="the last norm has a gain of 0"):
        native_head(files)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"llama.nextn_predict_layers": 3}, "nextn_predict_layers is 3 but llama.block_count"),
        ({"llama.nextn_predict_layers": "1"}, "nextn_predict_layers is '1'; it must be a whole"),
        ({"llama.nextn_predict_layers": -1.0}, r"nextn_predict_layers is -1\.0"),
    ],
)
def test_wrong_counts_of_head_blocks_are_named(
    tmp_path: Path, metadata: dict[str, Any], message: str
) -> None:
    path = tmp_path / "m.gguf"
    write_tiny_gguf(path, metadata={"llama.block_count": 3, **metadata})
    with pytest.raises(ModelError, match=message):
        GGUFFiles(path)


@pytest.mark.parametrize(
    ("omitted", "added", "message"),
    [
        ("nextn.eh_proj.weight", None, "has no tensor 'project'"),
        ("ffn_up.weight", None, "has no tensor 'layers.0.up'"),
        (None, "layer_output_norm.weight", r"'blk\.2\.layer_output_norm\.weight' has no place"),
        ("nextn.hnorm.weight", "nextn.hnorm.weight", r"hnorm\.weight' .* has shape \(3,\)"),
    ],
)
def test_an_incomplete_gguf_head_is_named(
    tmp_path: Path, omitted: str | None, added: str | None, message: str
) -> None:
    head = nextn_head_tensors("llama")
    head.pop(f"blk.2.{omitted}", None)
    if added is not None:
        head[f"blk.2.{added}"] = np.ones(3, dtype=np.float32)
    write_nextn_gguf(tmp_path / "m.gguf", "llama", head)
    with pytest.raises(ModelError, match=message):
        native_head(GGUFFiles(tmp_path / "m.gguf"))


def test_a_quantised_head_is_read(tmp_path: Path) -> None:
    import gguf

    path = tmp_path / "m.gguf"
    head = nextn_head_tensors("llama")
    name = "blk.2.nextn.eh_proj.weight"
    packed = gguf.quants.quantize(head[name], gguf.GGMLQuantizationType.Q8_0)
    expected = gguf.quants.dequantize(packed, gguf.GGMLQuantizationType.Q8_0)
    write_nextn_gguf(path, "llama", head)
    files = GGUFFiles(path)
    raw = files.head_tensors[name]
    files.head_tensors[name] = type(raw)(name, raw.shape, "Q8_0", packed.reshape(-1))
    np.testing.assert_array_equal(native_head(files).tensor("project"), expected)
