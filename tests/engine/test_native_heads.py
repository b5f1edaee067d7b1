"""Checkpoints with a head of their own, from the file to the served draft, on the real backend."""

import numpy as np
import pytest
from tests.support.native_heads import (
    MiMoReference,
    NextNReference,
    nextn_head_tensors,
    write_mimo_folder,
    write_nextn_gguf,
)
from tests.support.tabular_engine import ask, run_all, token_ids

from leeway.backends.base import HeadInput, SequenceInput
from leeway.backends.openvino import OpenVINOBackend
from leeway.backends.openvino.head import OpenVINOHead
from leeway.core.config import engine_config
from leeway.engine.load import load_engine
from leeway.models.heads import native_head
from leeway.models.open import open_model

IDS = np.random.default_rng(5).integers(3, 260, 40).tolist()
KINDS = ("mimo", "llama", "qwen2", "qwen3")


def checkpoint(kind, folder):
    """Write a checkpoint; return its path and what it means by its own names."""
    if kind == "mimo":
        return folder / "mimo", MiMoReference(write_mimo_folder(folder / "mimo"))
    head = nextn_head_tensors(kind, optional=kind == "qwen2")
    stored = write_nextn_gguf(folder / "m.gguf", kind, head)
    return folder / "m.gguf", NextNReference(stored, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_states_and_logits_of_every_depth(kind, tmp_path):
    path, reference = checkpoint(kind, tmp_path)
    files = open_model(str(path))
    settings = {"weights": "f32", "kv_cache": "f32", "num_threads": 1}
    target = OpenVINOBackend(files, **settings)
    head = OpenVINOHead(native_head(files), files, **settings)
    output = target.forward([SequenceInput(target.open(), IDS, len(IDS))])
    assert np.abs(output.logits - reference.body_logits(IDS)).max() < 1e-4
    states, own = output.hidden[:-1].copy(), reference.body_states(IDS)[:-1]
    for depth in range(3):
        next_ids = IDS[1 + depth :]
        drafted = head.forward([HeadInput(head.open(), states, next_ids, len(next_ids))])
        expected = reference.draft(own, next_ids)
        assert np.abs(drafted.logits - expected.logits).max() < 2e-4
        states, own = drafted.hidden[:-1].copy(), expected.states[:-1]


def shortfall(reference, token_ids, drafted):
    """Return by how much, in standard deviations of its row, a drafted token misses the best one.

    A head's own states follow the target's, and the drafted tokens the committed ones.
    """
    states, ids = reference.body_states(token_ids)[:-1], list(token_ids)
    worst = 0.0
    for token_id in drafted:
        step = reference.draft(states, ids[1:])
        row = step.logits[-1]
        worst = max(worst, (row.max() - row[token_id]) / row.std())
        ids.append(token_id)
        states = np.concatenate([states, step.states[-1:]])
    return worst


@pytest.mark.parametrize("kind", ["mimo", "llama"])
def test_the_served_drafts_are_those_of_the_checkpoint(kind, tmp_path):
    path, reference = checkpoint(kind, tmp_path)
    settings = {
        "model": str(path),
        "cache_dir": str(tmp_path),
        "kv_memory": "4MiB",
        "weights": "f32",
    }
    drafting = {"drafter": "mtp", "draft_weights": "f32", "num_speculative_tokens": 3}
    engine = load_engine(engine_config(**settings, **drafting))
    assert engine.parts.drafter_settings["name"] == f"{path.stem}-native"
    propose, seen = engine.parts.drafter.propose, []

    def recorded(asks):
        drafts = propose(asks)
        seen.extend(
            (tuple(one.token_ids), tuple(two.token_ids))
            for one, two in zip(asks, drafts, strict=True)
        )
        return drafts

    engine.parts.drafter.propose = recorded
    request = ask(tuple(IDS[:6]), temperature=0.0, max_tokens=10)
    deltas = run_all(engine, request)["a"]
    assert deltas[-1].receipt.drafter == "mtp" and len(seen) >= 3
    assert max(len(drafted) for _, drafted in seen) == 3
    # Greedy over a 16-bit cache: the best token, or one that is as good.
    assert max(shortfall(reference, list(ids), drafted) for ids, drafted in seen) < 0.05
    assert max(shortfall(reference, list(ids[:-1]), drafted) for ids, drafted in seen) > 1
    plain = load_engine(engine_config(**settings, drafter="none"))
    assert token_ids(deltas) == token_ids(run_all(plain, request)["a"])
