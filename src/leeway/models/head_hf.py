"""The draft head of a MiMo folder: the tensors `model.mtp_layers.0.*`.

In: an opened Hugging Face folder. Out: `HeadFiles`, or None if it has no head.

Source: vLLM's model of Xiaomi's MiMo-7B (mimo.py, mimo_mtp.py): `input_proj` has the columns of the
state first, and the state is the one from before the model's last norm.
Deviates: vLLM blanks the embedding at position 0; here no position is special.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from leeway.core.errors import ModelError
from leeway.models.head_native import (
    NativeHead,
    NativeTensor,
    borrowed,
    canonical_head_name,
    refuse_several_modules,
)
from leeway.models.hf_folder import HEAD_PREFIX, LAYER_NAMES, HFFolder
from leeway.models.safetensors_container import StoredTensor

_HEAD_NAMES = {
    "input_proj.weight": "project",
    "token_layernorm.weight": "embed_norm",
    "hidden_layernorm.weight": "hidden_norm",
    "final_layernorm.weight": "final_norm",
}


def open_hf_head(files: HFFolder) -> NativeHead | None:
    """Return the head in a model's own folder, or None.

    Raises:
        ModelError: it cannot be used; the message says why.
    """
    if not files.head_tensors:
        return None
    source = str(files.path)
    indices = {own.removeprefix(HEAD_PREFIX).partition(".")[0] for own in files.head_tensors}
    refuse_several_modules(source, len(indices))
    tensors = {}
    for own, stored in files.head_tensors.items():
        part = own.removeprefix(f"{HEAD_PREFIX}0.")
        name = canonical_head_name(source, own, part, _HEAD_NAMES, LAYER_NAMES)
        read = partial(_embedding_first, stored) if name == "project" else stored.values
        tensors[name] = NativeTensor(own, stored.type_name, stored.shape, stored.data, read)
    if not files.tensor("final_norm").all():
        raise ModelError(
            f"{source}: the last norm has a gain of 0, so the states from before it, which the "
            "draft head reads, cannot be had; decode without the head"
        )
    tensors["state_gain"] = borrowed(files, "final_norm", "model.norm.weight")
    return NativeHead(source, files, tensors)


def _embedding_first(stored: StoredTensor) -> NDArray[np.float32]:
    return np.concatenate(np.split(stored.values(), 2, axis=1)[::-1], axis=1)
