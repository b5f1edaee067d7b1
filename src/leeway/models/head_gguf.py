"""The draft head of a GGUF file: the block behind the model's own and its `nextn` tensors.

In: an opened GGUF file. Out: `HeadFiles`, or None if it has no head.

Source: llama.cpp, whose graphs say what these tensors mean: `eh_proj` has the embedding's columns
first; it reads states from behind the last norm; `shared_head_norm` is the norm before the output,
the model's own last norm where it is absent.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from leeway.models.dequantise import dequantise
from leeway.models.gguf import LAYER_NAMES, GGUFFiles, in_half_split_order
from leeway.models.gguf_container import RawTensor
from leeway.models.head_native import (
    NativeHead,
    NativeTensor,
    borrowed,
    canonical_head_name,
    refuse_several_modules,
)

_HEAD_NAMES = {
    "nextn.eh_proj.weight": "project",
    "nextn.enorm.weight": "embed_norm",
    "nextn.hnorm.weight": "hidden_norm",
    "nextn.shared_head_norm.weight": "final_norm",
    "nextn.embed_tokens.weight": "embed",
    "nextn.shared_head_head.weight": "output",
}


def open_gguf_head(files: GGUFFiles) -> NativeHead | None:
    """Return the head in a model's own file, or None.

    Raises:
        ModelError: it cannot be used; the message says why.
    """
    if not files.head_tensors:
        return None
    source = str(files.path)
    refuse_several_modules(source, files.num_head_blocks)
    prefix = f"blk.{files.spec.num_layers}."
    tensors = {}
    for own, raw in files.head_tensors.items():
        part = own.removeprefix(prefix)
        name = canonical_head_name(source, own, part, _HEAD_NAMES, LAYER_NAMES)
        tensors[name] = NativeTensor(
            own, raw.type_name, raw.shape, raw.data, partial(_read, files, raw, name)
        )
    if "final_norm" not in tensors:
        tensors["final_norm"] = borrowed(files, "final_norm", "output_norm.weight")
    return NativeHead(source, files, tensors)


def _read(files: GGUFFiles, raw: RawTensor, name: str) -> NDArray[np.float32]:
    values = dequantise(raw.data, raw.type_name, raw.shape, raw.name)
    return in_half_split_order(values, files.spec, name)
