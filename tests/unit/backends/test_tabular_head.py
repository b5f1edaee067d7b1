"""The head made of a table: its rows, and every misuse that it must refuse aloud."""

import numpy as np
import pytest

from leeway.backends.base import HeadInput, SequenceInput
from leeway.backends.tabular import TabularBackend, random_table
from leeway.backends.tabular_head import TabularHead
from leeway.backends.tabular_state import from_row, state_at
from leeway.core.errors import CapacityError

VOCAB, IDS = 4, np.array([0, 2, 3])
TEXT = [0, 1, 2, 3, 1]


@pytest.fixture
def target():
    return TabularBackend(random_table(VOCAB, 1, seed=1), order=1)


@pytest.fixture
def head(target):
    tables = [random_table(VOCAB, 2, seed=10 + depth, num_columns=len(IDS)) for depth in range(2)]
    return TabularHead(target, tables, order=2, draft_token_ids=IDS)


@pytest.fixture
def states(target):
    """The target's states of TEXT, copied."""
    handle = target.open()
    return target.forward([SequenceInput(handle, TEXT, 0)]).hidden.copy()


def pairs(handle, states, tokens, num_logit_rows=1):
    return HeadInput(handle, states, tokens, num_logit_rows)


def filled(head, states, num=3):
    """A sequence with its first `num` pairs cached, and what the head gave."""
    handle = head.open()
    return handle, head.forward([pairs(handle, states[:num], TEXT[1 : num + 1], num)])


def test_rows_depend_on_the_state_the_next_token_and_the_depth(head, states):
    handle, output = filled(head, states)
    for index in range(3):
        expected = head.tables[0][TEXT[index], TEXT[index + 1]]
        assert np.allclose(np.exp(output.logits[index]), expected, atol=1e-12)
    own = head.forward([pairs(handle, output.hidden[-1:].copy(), [2])])
    assert np.allclose(np.exp(own.logits[0]), head.tables[1][3, 2], atol=1e-12)
    deeper = head.forward([pairs(handle, own.hidden.copy(), [0])])
    assert np.allclose(np.exp(deeper.logits[0]), head.tables[1][2, 0], atol=1e-12)
    assert head.cached_pairs(handle) == ((0, 1), (0, 2), (0, 3), (1, 2), (2, 0))


def test_a_truncated_sequence_goes_on_as_if_never_drafted(head, states):
    handle, output = filled(head, states)
    head.forward([pairs(handle, output.hidden[-1:].copy(), [2])])
    head.truncate(handle, 3)
    again = head.forward([pairs(handle, states[3:4], [1])])
    fresh, _ = filled(head, states)
    expected = head.forward([pairs(fresh, states[3:4], [1])])
    assert np.array_equal(again.logits, expected.logits)
    assert head.cached_pairs(handle) == head.cached_pairs(fresh)


def test_sequences_share_a_forward(head, states):
    one, two = head.open(), head.open()
    output = head.forward([pairs(one, states[:2], TEXT[1:3]), pairs(two, states[:1], TEXT[1:2])])
    assert output.logits.shape == (2, len(IDS)) and output.hidden.shape == (3, head.hidden_size)
    assert np.array_equal(output.hidden[0], output.hidden[2])
    assert (head.cached_len(one), head.cached_len(two), head.num_open()) == (2, 1, 2)
    head.close(one)
    assert head.num_open() == 1


def test_a_position_out_of_order_is_refused(head, states):
    handle, _ = filled(head, states, num=2)
    with pytest.raises(AssertionError, match="position 3 where 2 is next"):
        head.forward([pairs(handle, states[3:4], TEXT[4:5])])
    with pytest.raises(AssertionError, match="position 1 where 2 is next"):
        head.forward([pairs(handle, states[1:2], TEXT[2:3])])


def test_a_state_behind_another_text_is_refused(head, states):
    handle, _ = filled(head, states, num=2)
    head.truncate(handle, 1)
    head.forward([pairs(handle, states[1:2], [0])])  # the pair of a token that was not committed
    with pytest.raises(AssertionError, match="another text"):
        head.forward([pairs(handle, states[2:3], TEXT[3:4])])


def test_a_draft_left_in_the_cache_is_refused(head, states):
    handle, output = filled(head, states, num=2)
    head.forward([pairs(handle, output.hidden[-1:].copy(), TEXT[3:4])])
    with pytest.raises(AssertionError, match="a draft is still cached"):
        head.forward([pairs(handle, states[3:4], TEXT[4:5])])


def test_a_state_of_the_head_stands_only_where_it_was_given(head, states):
    handle, output = filled(head, states)
    stale = output.hidden[-1:].copy()
    head.truncate(handle, 2)
    head.forward([pairs(handle, states[2:3], [0])])
    with pytest.raises(AssertionError, match="not the state that the head gave here"):
        head.forward([pairs(handle, stale, [2])])


def test_a_state_of_another_sequence_is_refused(head, states):
    handle, output = filled(head, states)
    theirs = output.hidden[-1:].copy()
    other = head.open()
    head.forward([pairs(other, states[:3], [1, 2, 0])])
    with pytest.raises(AssertionError, match="not the state that the head gave here"):
        head.forward([pairs(other, theirs, [2])])
    head.forward([pairs(handle, theirs, [2])])


def test_states_are_spoilt_by_the_next_forward(target, head, states):
    _, output = filled(head, states)
    kept = output.hidden
    handle, _ = filled(head, states)
    assert np.isnan(kept).all()
    with pytest.raises(AssertionError, match="no hidden state"):
        head.forward([pairs(handle, kept[-1:], [2])])
    seen = target.forward([SequenceInput(target.open(), [0], 0)]).hidden
    target.forward([SequenceInput(target.open(), [1], 0)])
    assert np.isnan(seen).all()


def test_truncation_keeps_no_more_than_is_cached(head, states):
    handle, _ = filled(head, states)
    with pytest.raises(AssertionError, match="3 cached, 4 to be kept"):
        head.truncate(handle, 4)


def test_the_same_sequence_twice_in_a_forward_is_refused(head, states):
    handle = head.open()
    with pytest.raises(AssertionError, match="twice"):
        head.forward([pairs(handle, states[:1], [1]), pairs(handle, states[:1], [1])])


def test_a_full_cache_appends_nothing(target, states):
    tables = [random_table(VOCAB, 2, seed=1)]
    head = TabularHead(target, tables, order=2, capacity_tokens=4)
    handle, _ = filled(head, states)
    with pytest.raises(CapacityError, match="0 of 1 blocks of 4 tokens free and this step needs 1"):
        head.forward([pairs(handle, states[3:5], [1, 1])])
    assert head.cached_len(handle) == 3


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_state_survives_its_row(dtype):
    state = state_at([3, 0, 2] * 20)
    copied = from_row(np.array(state.to_row(2), dtype=dtype))
    assert (copied.position, copied.depth, copied.last_tokens) == (59, 0, (0, 2))
    assert (
        copied.fingerprint == state.fingerprint != state_at([3, 0, 2] * 19 + [3, 2, 2]).fingerprint
    )
