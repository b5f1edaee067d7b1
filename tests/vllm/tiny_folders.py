"""A tiny random target and drafters near it, as folders that vLLM loads."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file
from tests.support.tiny_models import tiny_spec, write_tiny_hf_folder


@dataclass(frozen=True)
class Models:
    """Folders of a target, of a draft model with the same tokens, and of an EAGLE head."""

    target: Path
    draft: Path
    eagle: Path


def write_models(folder: Path) -> Models:
    """Write all; the draft's weights are the target's with noise."""
    spec = tiny_spec("llama", head_size=32)
    config = {"architectures": ["LlamaForCausalLM"], "torch_dtype": "float32", "bos_token_id": 0}
    target = write_tiny_hf_folder(folder / "target", spec=spec, config=config).path
    draft = write_tiny_hf_folder(folder / "draft", spec=spec, config=config).path
    generator = np.random.default_rng(1)
    own = load_file(target / "model.safetensors")
    noisy = {
        name: values + generator.normal(0, 0.04, values.shape).astype(np.float32)
        for name, values in own.items()
    }
    save(own, target)
    save(noisy, draft)
    return Models(target, draft, write_eagle(folder / "eagle", target, own))


def write_eagle(folder: Path, target: Path, weights: dict[str, np.ndarray]) -> Path:
    """Write an EAGLE head: the target's last layer behind a layer that hands its states on."""
    config = json.loads((target / "config.json").read_text())
    size, last = config["hidden_size"], config["num_hidden_layers"] - 1
    generator = np.random.default_rng(2)
    joint = np.concatenate([np.zeros((size, size)), np.eye(size)], axis=1)
    joint += generator.normal(0, 0.05, joint.shape)
    layer = f"model.layers.{last}."
    tensors = {
        name.replace(layer, "layers.0."): values
        for name, values in weights.items()
        if name.startswith(layer) and "input_layernorm" not in name
    }
    folder.mkdir()
    save(tensors | {"fc.weight": joint.astype(np.float32)}, folder)
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 1}))
    return folder


def save(tensors: dict[str, np.ndarray], folder: Path) -> None:
    """Write weights as PyTorch's safetensors have them."""
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
