"""Training on a task that can be learnt wholly, and going on after an interruption."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from tests.support.tiny_models import tiny_spec

from leeway.heads import train
from leeway.heads.batches import pack
from leeway.heads.dataset import Answer
from leeway.heads.network import Head
from leeway.heads.train import Recipe, Trainer, batch_losses

VOCAB = 24
SPEC = tiny_spec(
    num_layers=1, hidden_size=32, num_heads=2, num_kv_heads=1, ffn_size=48, vocab_size=VOCAB
)
RECIPE = Recipe(depth=2, num_positions=3000, row_len=32, rows=4, learning_rate=0.01)
SHORT = replace(RECIPE, num_positions=1300)


class StopHereError(Exception):
    pass


def new_head(seed=0):
    embed = torch.randn(VOCAB, SPEC.hidden_size, generator=torch.Generator().manual_seed(9))
    torch.manual_seed(seed)
    return Head(SPEC, embed, embed[::2].clone())


def answers(number=12, length=40):
    """Return answers whose next state follows from the token: 3 times its embedding."""
    embed = new_head().embed.numpy()
    generator = np.random.default_rng(2)
    made = []
    for _ in range(number):
        # Only tokens that can be drafted, one stepping on from the other.
        tokens = 2 * ((generator.integers(0, 12) + 5 * np.arange(length + 1)) % 12)
        made.append(Answer(tokens.astype(np.int32), (3 * embed[tokens[:-1]]).astype(np.float16), 1))
    return made


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(train, "_WARM_UP_STEPS", 5)
    monkeypatch.setattr(train, "_CHECKPOINT_EVERY_S", -1.0)  # behind every step


def test_a_deterministic_task_is_learnt(tmp_path):
    shown = []
    trainer = Trainer(new_head(), RECIPE, tmp_path / "checkpoint.pt")
    state = trainer.run(answers(), lambda one: shown.append(one.num_positions))
    assert state.num_steps == len(state.losses) == len(shown) > 20
    assert state.num_positions >= RECIPE.num_positions > shown[-2]
    assert np.mean(state.losses[-3:]) < 0.2 * state.losses[0]
    batch, _ = pack(answers(), [[(0, 0, 32)], [(1, 0, 32)]], 32)
    with torch.no_grad():
        before = float(batch_losses(new_head(), batch, RECIPE)[1])
        assert float(batch_losses(trainer.head, batch, RECIPE)[1]) < 0.2 * before


@pytest.fixture(name="whole", scope="module")
def _whole(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train, "_WARM_UP_STEPS", 5)
        trainer = Trainer(new_head(), SHORT, tmp_path_factory.mktemp("whole") / "checkpoint.pt")
        trainer.run(answers())
    return trainer


@pytest.mark.parametrize("stop_after", [1, 3, 4, 5, 9])
def test_an_interrupted_run_ends_as_an_uninterrupted_one(tmp_path, whole, stop_after):
    assert whole.state.epoch >= 2  # of four batches each, so stops lie within and between epochs

    def stop(state):
        if state.num_steps > stop_after:
            raise StopHereError

    with pytest.raises(StopHereError):
        Trainer(new_head(), SHORT, tmp_path / "parts.pt").run(answers(), stop)
    resumed = Trainer(new_head(seed=1), SHORT, tmp_path / "parts.pt")
    assert resumed.state.num_steps == stop_after
    resumed.run(answers())
    assert _without_time(resumed.state) == _without_time(whole.state)
    for one, other in zip(resumed.head.parameters(), whole.head.parameters(), strict=True):
        assert torch.equal(one, other)


def test_repeating_what_was_done_would_be_seen(tmp_path, whole):
    """The fault that the test above guards against: an epoch begun anew."""
    with pytest.raises(StopHereError):
        Trainer(new_head(), SHORT, tmp_path / "parts.pt").run(answers(), _stop_at_third)
    resumed = Trainer(new_head(), SHORT, tmp_path / "parts.pt")
    resumed.state.num_batches = 0
    resumed.run(answers())
    assert resumed.state.losses != whole.state.losses


def _stop_at_third(state):
    if state.num_steps == 3:
        raise StopHereError


def test_an_interrupted_checkpoint_leaves_the_last_one(tmp_path, monkeypatch):
    path = tmp_path / "checkpoint.pt"
    recipe = replace(RECIPE, num_positions=400)
    trainer = Trainer(new_head(), recipe, path)
    trainer.run(answers())
    before = path.read_bytes()

    def write_half(_, part):
        part.write_bytes(before[: len(before) // 2])
        raise StopHereError

    monkeypatch.setattr(torch, "save", write_half)
    with pytest.raises(StopHereError):
        trainer.save()
    assert path.read_bytes() == before
    assert asdict(Trainer(new_head(), recipe, path).state) == asdict(trainer.state)


def test_a_finished_run_is_left_alone_and_a_longer_one_goes_on(tmp_path):
    path = tmp_path / "checkpoint.pt"
    recipe = replace(RECIPE, num_positions=400)
    done = Trainer(new_head(), recipe, path).run(answers())
    again = Trainer(new_head(), recipe, path)
    assert _without_time(again.run(answers())) == _without_time(done)
    longer = Trainer(new_head(), replace(recipe, num_positions=800), path).run(answers())
    assert longer.losses[: done.num_steps] == done.losses and longer.num_positions >= 800


def test_a_checkpoint_from_before_batches_were_counted_is_taken_up(tmp_path):
    path = tmp_path / "checkpoint.pt"
    trainer = Trainer(new_head(), replace(RECIPE, num_positions=200), path)
    trainer.run(answers())
    saved = torch.load(path, weights_only=True)
    del saved["state"]["num_batches"]
    torch.save(saved, path)
    assert Trainer(new_head(), RECIPE, path).state.num_batches == 0


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5])
def test_every_depth_adds_to_the_loss(depth):
    batch, _ = pack(answers(), [[(0, 0, 32)]], 32)
    head = new_head()
    with torch.no_grad():
        first, total = batch_losses(head, batch, replace(RECIPE, depth=depth))
        fewer = batch_losses(head, batch, replace(RECIPE, depth=depth - 1))[1] if depth > 1 else 0.0
    assert float(total) > float(fewer) + 0.1
    if depth == 1:
        assert first == pytest.approx(float(total))


def test_more_depths_than_weights_are_refused(tmp_path):
    with pytest.raises(AssertionError):
        Trainer(new_head(), replace(RECIPE, depth=6), tmp_path / "checkpoint.pt")


def test_a_batch_without_labels_costs_nothing():
    batch, _ = pack(answers(), [[(0, 0, 2)]], 32)
    first, total = batch_losses(new_head(), batch, replace(RECIPE, depth=3))
    assert first == pytest.approx(float(total.detach())) and np.isfinite(first)


def test_the_learning_rate_rises_then_falls_with_the_positions(tmp_path):
    trainer = Trainer(new_head(), RECIPE, tmp_path / "checkpoint.pt")
    shares = []
    for step in range(31):
        trainer.state.num_steps = step
        trainer.state.num_positions = 100 * step
        shares.append(trainer._schedule())
    peak = int(np.argmax(shares))
    assert peak == 4 and 0.9 < shares[peak] <= 1
    assert shares[:5] == sorted(shares[:5]) and shares[4:] == sorted(shares[4:], reverse=True)
    assert shares[-1] == pytest.approx(0.03)


def test_the_state_and_the_recipe_can_be_written_as_json():
    assert json.loads(json.dumps(asdict(RECIPE)))["depth"] == 2


def _without_time(state):
    return {key: value for key, value in asdict(state).items() if key != "seconds"}
