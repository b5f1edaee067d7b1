"""Which tensors a draft head has and their shapes, under the names of `models.head_base`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from leeway.core.errors import ModelError
from leeway.models.head_base import HeadSpec
from leeway.models.tensor_shapes import Shape, layer_shapes

OPTIONAL = ("embed", "output", "rope_factors", "state_gain")


def head_shapes(spec: HeadSpec) -> dict[str, Shape]:
    """Return {name: shape} of every tensor that a head can have; those of `OPTIONAL` may lack."""
    decoder = spec.decoder
    hidden_size, vocab_size = decoder.hidden_size, decoder.vocab_size
    num_draft = vocab_size if spec.draft_token_ids is None else len(spec.draft_token_ids)
    shapes: dict[str, Shape] = {
        "embed_norm": (hidden_size,),
        "hidden_norm": (hidden_size,),
        "project": (hidden_size, 2 * hidden_size),
        "final_norm": (hidden_size,),
        "embed": (vocab_size, hidden_size),
        "output": (num_draft, hidden_size),
        "rope_factors": (decoder.head_size // 2,),
        "state_gain": (hidden_size,),
    }
    for index in range(decoder.num_layers):
        shapes |= {f"layers.{index}.{part}": shape for part, shape in layer_shapes(decoder).items()}
    return shapes


def check_head_tensors(
    source: str,
    spec: HeadSpec,
    found: Mapping[str, Shape],
    own_name: Callable[[str], str] = str,
) -> None:
    """Compare what a head holds with what its numbers ask for.

    `found` maps canonical names to shapes, `own_name` gives the file's own name of one.

    Raises:
        ModelError: a tensor is missing, has the wrong shape or is one too many; the first such is
            named.
    """
    expected = head_shapes(spec)
    for name, shape in expected.items():
        if name not in found:
            if name in OPTIONAL:
                continue
            raise ModelError(
                f"{source} has no tensor {own_name(name)!r} ({name}, shape {shape}), which a draft "
                f"head of {spec.decoder.num_layers} layers needs; the file is incomplete, make or "
                "fetch it again"
            )
        if found[name] != shape:
            raise ModelError(
                f"{source}: tensor {own_name(name)!r} ({name}) has shape {found[name]}, but its "
                f"metadata asks for {shape}; the file is inconsistent, make or fetch it again"
            )
    for name in found:
        if name not in expected:
            raise ModelError(
                f"{source}: tensor {own_name(name)!r} is one too many for a draft head of "
                f"{spec.decoder.num_layers} layers; leaving it out would give other drafts, so "
                "this file cannot be used"
            )
