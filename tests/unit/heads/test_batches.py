"""Packing: what is covered, what is labelled, and that no answer meets another."""

import numpy as np
import pytest
from tests.support.training_data import marked_answer

from leeway.heads.batches import batches, labelled, pack, packed_rows, split

ROW_LEN = 64
LENGTHS = (5, 40, 64, 65, 200, 1, 31, 33, 64, 20, 90, 2)


def marked_answers(lengths=LENGTHS):
    return [marked_answer(number, length) for number, length in enumerate(lengths, 1)]


def test_rows_are_full_and_every_answer_comes_once():
    answers = marked_answers()
    for seed in range(20):
        rows = packed_rows(answers, ROW_LEN, np.random.default_rng(seed))
        assert sorted(which for row in rows for which, _, _ in row) == list(range(len(answers)))
        used = [sum(length for _, _, length in row) for row in rows]
        assert max(used) <= ROW_LEN and min(used[:-1]) > ROW_LEN - 32
        for which, first, length in (piece for row in rows for piece in row):
            assert length >= min(32, LENGTHS[which])
            assert 0 <= first <= max(0, LENGTHS[which] - ROW_LEN)
            assert first + length <= LENGTHS[which]


def test_order_and_windows_change_with_the_seed_and_only_with_it():
    answers = marked_answers()
    rows = [packed_rows(answers, ROW_LEN, np.random.default_rng(seed)) for seed in (1, 1, 2)]
    assert rows[0] == rows[1] != rows[2]
    windows = set()
    for seed in range(30):
        for row in packed_rows(answers, ROW_LEN, np.random.default_rng(seed)):
            windows.update(first for which, first, _ in row if LENGTHS[which] == 200)
    assert len(windows) > 20


@pytest.mark.parametrize("step", [0, 1, 2])
def test_labels_are_the_answer_s_own_next_states(step):
    answers = marked_answers()
    rows = packed_rows(answers, ROW_LEN, np.random.default_rng(3))
    batch, num_labelled = pack(answers, rows, ROW_LEN)
    pieces = [piece for row in rows for piece in row]
    assert num_labelled == sum(length - 1 for _, _, length in pieces)
    chosen = labelled(batch, step)
    assert int(chosen.sum()) == sum(max(length - 1 - step, 0) for _, _, length in pieces)
    for row, place in chosen.nonzero().tolist():
        number, position = batch.hidden[row, place + 1].tolist()  # the label
        assert batch.hidden[row, place].tolist() == [number, position - 1]
        assert batch.token_ids[row, place + 1] == 1000 * number + position  # the input
        # Depth step + 1 began with the true pair `step` places back, of the same answer.
        assert batch.hidden[row, place - step].tolist() == [number, position - 1 - step]
        assert batch.segments[row, place - step] == batch.segments[row, place + 1]


def test_places_count_from_each_piece_and_padding_belongs_to_nothing():
    answers = marked_answers((5, 40))
    batch, num_labelled = pack(answers, [[(0, 0, 5), (1, 3, 30)]], ROW_LEN)
    assert num_labelled == 33
    assert batch.positions[0, :35].tolist() == [*range(5), *range(30)]
    assert batch.segments[0].tolist() == [0] * 5 + [1] * 30 + [-1] * 29
    assert not labelled(batch, 0)[0, 34:].any()
    assert batch.token_ids[0, 35] == 2033  # the last position's own next token


def test_prompts_are_read_and_not_learnt():
    answers = [marked_answer(1, 20, start=8)]
    batch, num_labelled = pack(answers, [[(0, 2, 18)]], ROW_LEN)
    assert batch.places[0, :18].tolist() == list(range(-6, 12))
    first = [int(labelled(batch, step).nonzero()[0, 1]) for step in range(3)]
    # Position 8 is the answer's first token; the pair in front of it drafts the second one.
    assert [batch.hidden[0, place, 1] for place in first] == [7, 8, 9]
    assert num_labelled == int(labelled(batch, 0).sum()) == 12


@pytest.mark.parametrize("num_done", [0, 1, 3, 99])
def test_an_epoch_can_be_taken_up_behind_the_batches_that_are_done(num_done):
    answers = marked_answers()
    whole = list(batches(answers, row_len=ROW_LEN, rows=2, seed=5))
    rest = list(batches(answers, row_len=ROW_LEN, rows=2, seed=5, num_done=num_done))
    assert len(whole) > 3 and len(rest) == max(len(whole) - num_done, 0)
    for (one, num_one), (other, num_other) in zip(whole[num_done:], rest, strict=True):
        assert num_one == num_other and bool((one.token_ids == other.token_ids).all())


def test_held_out_answers_are_never_trained_on():
    answers = marked_answers((3,) * 103)
    training, held_out = split(answers)
    numbers = [int(one.hidden[0, 0]) for one in training + held_out]
    assert len(held_out) == 4 and sorted(numbers) == list(range(1, 104))
    # More answers in a later run move none across.
    more_training, more_held_out = split(marked_answers((3,) * 180))
    assert {int(one.hidden[0, 0]) for one in training} <= {
        int(one.hidden[0, 0]) for one in more_training
    }
    assert len(more_held_out) == 7
    assert split(answers[:24])[1] == []
