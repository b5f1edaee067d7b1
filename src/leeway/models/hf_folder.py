"""A Hugging Face folder (config.json, safetensors, tokenizer.json) as `ModelFiles`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leeway.core.errors import ModelError
from leeway.models.hf_config import MIMO, read_rope_factors, read_spec
from leeway.models.hf_tokenizer import read_tokenizer
from leeway.models.safetensors_container import StoredTensor, read_safetensors
from leeway.models.tensor_shapes import check_tensors

_TOP_NAMES = {
    "model.embed_tokens.weight": "embed",
    "lm_head.weight": "output",
    "model.norm.weight": "final_norm",
}
LAYER_NAMES = {
    "input_layernorm.weight": "attn_norm",
    "self_attn.q_proj.weight": "q",
    "self_attn.k_proj.weight": "k",
    "self_attn.v_proj.weight": "v",
    "self_attn.q_proj.bias": "q_bias",
    "self_attn.k_proj.bias": "k_bias",
    "self_attn.v_proj.bias": "v_bias",
    "self_attn.q_norm.weight": "q_norm",
    "self_attn.k_norm.weight": "k_norm",
    "self_attn.o_proj.weight": "o",
    "post_attention_layernorm.weight": "ffn_norm",
    "mlp.gate_proj.weight": "gate",
    "mlp.up_proj.weight": "up",
    "mlp.down_proj.weight": "down",
}
_OWN_TOP_NAMES = {canonical: own for own, canonical in _TOP_NAMES.items()}
_OWN_LAYER_NAMES = {part: own for own, part in LAYER_NAMES.items()}
HEAD_PREFIX = "model.mtp_layers."
_IGNORED_END = "rotary_emb.inv_freq"  # a constant that old checkpoints wrote out


class HFFolder:
    """An opened folder; satisfies `ModelFiles`.

    `head_tensors` are those of a draft head that came with the model, by the folder's own names;
    what they mean is the business of `models.head_hf`.
    """

    def __init__(self, folder: Path) -> None:
        """Open and check the folder.

        Raises:
            ModelError: a file is missing or broken, the architecture is not known, or a tensor is
                missing or of the wrong shape; the message names which.
        """
        config = read_json(folder / "config.json")
        self.path = folder
        self.name = folder.resolve().name
        self.spec = read_spec(config, str(folder))
        self._rope_factors = read_rope_factors(config, self.spec, str(folder))
        self._files = _weight_files(folder)
        stored = _stored_tensors(self._files)
        self.head_tensors: dict[str, StoredTensor] = {}
        if config["model_type"] == MIMO:
            head_names = [name for name in stored if name.startswith(HEAD_PREFIX)]
            self.head_tensors = {name: stored.pop(name) for name in head_names}
        self._tensors = _canonical_tensors(folder, stored)
        if self.spec.tied_output:
            self._tensors.pop("output", None)
        found = {name: tensor.shape for name, tensor in self._tensors.items()}
        check_tensors(str(folder), self.spec, found, _own_name)
        self.tokenizer = read_tokenizer(folder, config)

    def tensor(self, name: str) -> NDArray[np.float32]:
        """Return one tensor by canonical name. Raises ModelError naming a missing tensor."""
        if name == "rope_factors" and self._rope_factors is not None:
            return self._rope_factors.copy()
        if name not in self._tensors:
            raise ModelError(f"{self.path} has no tensor {name!r}")
        return self._tensors[name].values()

    def has_tensor(self, name: str) -> bool:
        """Return whether a tensor of this canonical name exists."""
        if name == "rope_factors":
            return self._rope_factors is not None
        return name in self._tensors

    def sha256(self) -> str:
        """Return one checksum over config.json and every weight file, in name order (hex)."""
        return self._sha256

    @cached_property
    def _sha256(self) -> str:
        whole = hashlib.sha256()
        for path in [self.path / "config.json", *self._files]:
            with path.open("rb") as file:
                whole.update(hashlib.file_digest(file, "sha256").digest())
        return whole.hexdigest()


def read_json(path: Path) -> Mapping[str, Any]:
    """Return a JSON object from a file.

    Raises:
        ModelError: the file is missing, is not JSON, or holds no object.
    """
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise ModelError(
            f"{path.parent} is not a model folder: it has no {path.name}; give a folder with "
            "config.json, safetensors and tokenizer.json, or a .gguf file"
        ) from error
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot read {path}: {error}") from error
    if not isinstance(value, dict):
        raise ModelError(f"{path} holds no JSON object; fetch it again")
    return value


def _weight_files(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        weight_map = read_json(index).get("weight_map")
        if not isinstance(weight_map, dict) or not weight_map:
            raise ModelError(f"{index} has no weight_map; fetch it again")
        files = [folder / name for name in sorted(set(weight_map.values()))]
    else:
        files = [folder / "model.safetensors"]
    for file in files:
        if not file.is_file():
            raise ModelError(
                f"{folder} has no {file.name}; safetensors weights are needed (pickled .bin files "
                "are not read)"
            )
    return files


def _stored_tensors(files: list[Path]) -> dict[str, StoredTensor]:
    return {
        name: stored
        for file in files
        for name, stored in read_safetensors(file).items()
        if not name.endswith(_IGNORED_END)
    }


def _canonical_tensors(folder: Path, stored: Mapping[str, StoredTensor]) -> dict[str, StoredTensor]:
    tensors = {}
    for own, tensor in stored.items():
        canonical = _canonical_name(own)
        if canonical is None:
            raise ModelError(
                f"{folder}: tensor {own!r} has no place in the supported architectures; "
                "leaving it out would give wrong text, so this variant cannot be loaded"
            )
        tensors[canonical] = tensor
    return tensors


def _canonical_name(own: str) -> str | None:
    if own in _TOP_NAMES:
        return _TOP_NAMES[own]
    if not own.startswith("model.layers."):
        return None
    index, _, part = own.removeprefix("model.layers.").partition(".")
    return f"layers.{index}.{LAYER_NAMES[part]}" if part in LAYER_NAMES else None


def _own_name(canonical: str) -> str:
    """Return what a Hugging Face checkpoint calls a tensor."""
    if canonical in _OWN_TOP_NAMES:
        return _OWN_TOP_NAMES[canonical]
    _, index, part = canonical.split(".")
    return f"model.layers.{index}.{_OWN_LAYER_NAMES[part]}"
