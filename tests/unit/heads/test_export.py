"""A trained module as a file: the same numbers under the canonical names."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.support.numpy_reference import reference_head
from tests.support.tiny_models import write_tiny_hf_folder
from tests.support.training_data import random_answer

from leeway.heads.batches import pack
from leeway.heads.export import canonical_tensors, export
from leeway.heads.make import new_head
from leeway.models.head_file import HeadFile
from leeway.models.open import open_model

IDS = np.arange(3, 90, 2)


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_the_file_drafts_as_the_module_does(tmp_path, family):
    target = open_model(str(write_tiny_hf_folder(tmp_path / "tiny", family).path))
    head, _ = new_head(target, IDS)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in head.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(0.2 * noise + (parameter.ndim == 1))
    path = tmp_path / "head.safetensors"
    export(head, target, IDS, path, depth=3, training={"steps": 1})
    file = HeadFile(path)
    assert file.spec.depth == 3 and file.spec.target_sha256 == target.sha256()
    assert file.spec.draft_token_ids.tolist() == IDS.tolist() and file.spec.training == {"steps": 1}
    assert not file.has_tensor("embed") and not file.has_tensor("output")
    for name, values in canonical_tensors(head).items():
        step = np.abs(values).max() / 127 if values.ndim == 2 else 0.0
        np.testing.assert_allclose(file.tensor(name), values, atol=0.6 * step)
    answer = random_answer(np.random.default_rng(2), 9, head.spec.hidden_size, 200)
    batch, _ = pack([answer], [[(0, 0, 9)]], 9)
    with torch.no_grad():
        (states,) = head(replace(batch, hidden=batch.hidden.float()), 1)
    hidden = answer.hidden.astype(np.float32)
    logits, own = reference_head(file, target, hidden, answer.token_ids[1:].tolist())
    difference = np.linalg.norm(own - states[0].numpy()) / np.linalg.norm(own)
    assert difference < 0.05  # what int8 rounding leaves
    assert logits.shape == (9, len(IDS))
