"""From a trained module to a head file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leeway.heads.network import Head
from leeway.models.base import ModelFiles
from leeway.models.head_base import HeadSpec
from leeway.models.head_file import write_head


def export(
    head: Head,
    target: ModelFiles,
    draft_token_ids: NDArray[np.int64],
    path: Path,
    *,
    depth: int,
    training: Mapping[str, Any],
) -> None:
    """Write the head to `path`, int8; embedding and output stay the target's.

    Args:
        head: trained.
        target: the model that it fits.
        draft_token_ids: [draft vocabulary], ascending.
        path: of the file.
        depth: how many tokens in a row it was trained to draft.
        training: the summary kept in the file.
    """
    spec = HeadSpec(
        decoder=replace(head.spec, tied_output=True),
        depth=depth,
        draft_token_ids=draft_token_ids,
        target_sha256=target.sha256(),
        training=training,
    )
    write_head(
        path, tensors=canonical_tensors(head), spec=spec, target_name=target.name, kind="int8"
    )


def canonical_tensors(head: Head) -> dict[str, NDArray[np.float32]]:
    """Return the parameters under the names of `models.head_base`."""
    tensors = {}
    for name, parameter in head.named_parameters():
        stem, _, kind = name.rpartition(".")
        canonical = f"{stem}_bias" if kind == "bias" else stem
        tensors[canonical] = parameter.detach().float().numpy()
    return tensors
