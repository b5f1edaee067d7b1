"""Which tensors an architecture has and their shapes, under the names of `models.base`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from leeway.core.errors import ModelError
from leeway.models.base import ArchitectureSpec

Shape = tuple[int, ...]

FAMILIES = ("llama", "qwen2", "qwen3")


def expected_shapes(spec: ArchitectureSpec) -> Iterator[tuple[str, Shape]]:
    """Yield (name, shape) of every tensor the model must have; `rope_factors` is optional.

    One at a time, so that a corrupt number of layers costs no more than the first one missing.
    """
    yield "embed", (spec.vocab_size, spec.hidden_size)
    yield "final_norm", (spec.hidden_size,)
    if not spec.tied_output:
        yield "output", (spec.vocab_size, spec.hidden_size)
    layer = layer_shapes(spec)
    for index in range(spec.num_layers):
        for part, shape in layer.items():
            yield f"layers.{index}.{part}", shape


def layer_shapes(spec: ArchitectureSpec) -> dict[str, Shape]:
    """Return {part: shape} of one decoder layer."""
    q_size = spec.num_heads * spec.head_size
    kv_size = spec.num_kv_heads * spec.head_size
    shapes: dict[str, Shape] = {
        "attn_norm": (spec.hidden_size,),
        "q": (q_size, spec.hidden_size),
        "k": (kv_size, spec.hidden_size),
        "v": (kv_size, spec.hidden_size),
        "o": (spec.hidden_size, q_size),
        "ffn_norm": (spec.hidden_size,),
        "gate": (spec.ffn_size, spec.hidden_size),
        "up": (spec.ffn_size, spec.hidden_size),
        "down": (spec.hidden_size, spec.ffn_size),
    }
    if spec.attention_bias:
        shapes |= {"q_bias": (q_size,), "k_bias": (kv_size,), "v_bias": (kv_size,)}
    if spec.qk_norm:
        shapes |= {"q_norm": (spec.head_size,), "k_norm": (spec.head_size,)}
    return shapes


def check_tensors(
    source: str,
    spec: ArchitectureSpec,
    found: Mapping[str, Shape],
    own_name: Callable[[str], str],
) -> None:
    """Compare what a file holds with what its architecture needs.

    `found` maps canonical names to shapes, `own_name` gives the file's own name of one.

    Raises:
        ModelError: a tensor is missing, has the wrong shape or is one too many; the first such is
            named.
    """
    surplus = dict.fromkeys(name for name in found if name != "rope_factors")
    for name, shape in expected_shapes(spec):
        surplus.pop(name, None)
        own = own_name(name)
        if name not in found:
            raise ModelError(
                f"{source} has no tensor {own!r} ({name}, shape {shape}), which a {spec.family} "
                f"model of {spec.num_layers} layers needs; the file is incomplete, fetch it again"
            )
        if found[name] != shape:
            raise ModelError(
                f"{source}: tensor {own!r} ({name}) has shape {found[name]}, but its metadata asks "
                f"for {shape}; the file is inconsistent, convert or fetch it again"
            )
    for name in surplus:
        raise ModelError(
            f"{source}: tensor {own_name(name)!r} is one too many for a {spec.family} model with "
            f"{spec.num_layers} layers; the file is inconsistent, convert or fetch it again"
        )
