"""On torch no value is looked at: the same operations run whatever the rows and coins hold.

Tensors of the device "meta" have shapes and no values, so a branch on a value, or a shape that
depends on one, raises. On a CUDA device the wait for it raises, too.
"""

from dataclasses import replace

import numpy as np
import pytest
from tests.support.array_kinds import TORCH_KINDS, ArrayKind, torch_or_skip
from tests.support.law_cases import ALL, label
from tests.support.many_requests import random_batch

from leeway.acceptance.limits import limit_law
from leeway.acceptance.loss import loss_many
from leeway.acceptance.many_coins import uniforms
from leeway.acceptance.registry import build_law
from leeway.acceptance.verify_many import verify_many
from leeway.core.limits import Limits
from leeway.core.rng import Purpose

LENGTHS = [2, 0, 3, 1]
META = ArrayKind("torch-meta")
LIMITS = [Limits(), Limits(tv_budget=0.1, hard_support=True)]


def judge_and_measure(law, batch, kind):
    verdicts = batch.verify(law, kind)
    columns, blocks = kind.array(batch.columns), batch.blocks(kind)
    loss_many(law, kind.rows(batch.rows), columns, blocks, verdicts.is_decided)
    return verdicts


@pytest.mark.parametrize("limits", LIMITS, ids=["law", "law under limits"])
@pytest.mark.parametrize("acceptance", ALL, ids=label)
def test_verdicts_and_loss_look_at_no_value(acceptance, limits):
    law = limit_law(build_law(acceptance), limits)
    for vocab_size in (4, 700):
        batch = random_batch(LENGTHS, vocab_size, seed=0)
        verdicts = judge_and_measure(law, batch, META)
        assert verdicts.next_columns.shape == (4,)
        assert verdicts.is_kept.shape == (4, 3)
        if not law.info.needs_draft_rows:
            judge_and_measure(law, replace(batch, rows=replace(batch.rows, draft_probs=None)), META)


def test_coins_look_at_no_value():
    keys = META.array(np.arange(4))
    assert uniforms(keys, keys, 3, Purpose.ACCEPT).shape == (4, 3)


def test_a_look_would_be_seen():
    with pytest.raises(RuntimeError):
        bool(META.array([True]).all())


@pytest.mark.skipif(len(TORCH_KINDS) == 1, reason="no CUDA device")
@pytest.mark.parametrize("acceptance", ALL, ids=label)
def test_nothing_waits_for_the_device(acceptance):
    torch = torch_or_skip()
    law, kind = build_law(acceptance), TORCH_KINDS[-1]
    batch = random_batch(LENGTHS, 700, seed=1)
    rows, columns, blocks = kind.rows(batch.rows), kind.array(batch.columns), batch.blocks(kind)
    next_probs, coins = kind.array(batch.next_probs), kind.array(batch.coins)
    next_coins = kind.array(batch.next_coins)
    torch.cuda.set_sync_debug_mode("error")
    try:
        verdicts = verify_many(law, rows, columns, blocks, next_probs, coins, next_coins)
        loss_many(law, rows, columns, blocks, verdicts.is_decided)
    finally:
        torch.cuda.set_sync_debug_mode("default")
