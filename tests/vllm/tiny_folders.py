"""A tiny random target and a draft model near it, as folders that vLLM loads."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file
from tests.support.tiny_models import tiny_spec, write_tiny_hf_folder


@dataclass(frozen=True)
class Pair:
    """Folders of a target and of a draft model with the same tokens."""

    target: Path
    draft: Path


def write_pair(folder: Path) -> Pair:
    """Write both; the draft's weights are the target's with noise."""
    spec = tiny_spec("llama", head_size=32)
    config = {"architectures": ["LlamaForCausalLM"], "torch_dtype": "float32", "bos_token_id": 0}
    target = write_tiny_hf_folder(folder / "target", spec=spec, config=config).path
    draft = write_tiny_hf_folder(folder / "draft", spec=spec, config=config).path
    weights = draft / "model.safetensors"
    generator = np.random.default_rng(1)
    noisy = {
        name: values + generator.normal(0, 0.04, values.shape).astype(np.float32)
        for name, values in load_file(weights).items()
    }
    save_file(noisy, weights, metadata={"format": "pt"})
    save_file(load_file(target / "model.safetensors"), target / "model.safetensors",
              metadata={"format": "pt"})  # fmt: skip
    return Pair(target, draft)
