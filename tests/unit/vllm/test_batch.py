"""Grouping by law, keys and steps."""

import numpy as np
import pytest
from tests.support.vllm_steps import law, plan_of

from leeway.acceptance.many_coins import uniforms
from leeway.core.rng import Purpose
from leeway.vllm.batch import Asked, Requests, engaged_name, request_key

EXACT = law("rejection")
TYPICAL = law("typical", delta=0.3)
RAW = law("typical", delta=0.3, rows="raw")


def groups_of(plan):
    return {
        (group.law.info.name, group.is_greedy): np.flatnonzero(group.members).tolist()
        for group in plan.groups
    }


def test_requests_are_grouped_by_law_and_temperature():
    plan = plan_of(
        (EXACT, False, None), (TYPICAL, False, None), (EXACT, False, None), (TYPICAL, True, None)
    )
    assert groups_of(plan) == {
        ("rejection", False): [0, 2],
        ("typical", False): [1],
        ("typical", True): [3],
    }


@pytest.mark.parametrize(
    ("one", "is_greedy", "name", "is_match"),
    [
        (TYPICAL, False, "typical", False),
        (TYPICAL, True, "greedy_match", True),
        (EXACT, True, "rejection", True),
        (RAW, True, "typical", False),
    ],
    ids=["sampled", "greedy", "exact greedy", "raw greedy"],
)
def test_a_lossy_law_acts_at_temperature_0_on_raw_rows_only(one, is_greedy, name, is_match):
    group = plan_of((one, is_greedy, None)).groups[0]
    assert engaged_name(group) == name
    assert group.is_match is is_match


def test_keys_come_from_seeds_else_from_ids():
    plan = plan_of((EXACT, False, 5), (EXACT, False, 5), (EXACT, False, None), server_seed=1)
    assert plan.keys[0] == plan.keys[1] == 5
    assert plan.keys[2] == request_key(None, "2", 1)
    assert request_key(None, "2", 1) != request_key(None, "2", 2)
    assert request_key(None, "2", 1) != request_key(None, "3", 1)


@pytest.mark.parametrize(
    ("seed", "key"), [(0, 0), (2**63 - 1, 2**63 - 1), (2**63, -(2**63)), (2**64 - 1, -1), (-1, -1)]
)
def test_any_seed_is_a_signed_word(seed, key):
    assert request_key(seed, "x", 0) == key


def test_no_coin_is_thrown_twice():
    plan = plan_of((EXACT, False, 1), (EXACT, False, 2))
    drafted = np.array([True, True])
    thrown = np.stack([plan.throw(3, drafted) for _ in range(4)])
    assert thrown.shape == (4, 2, 4)
    assert len(np.unique(thrown)) == thrown.size
    assert ((thrown >= 0) & (thrown < 1)).all()


def test_each_block_has_the_coins_of_its_step_whoever_had_a_draft():
    plan = plan_of(*[(EXACT, False, seed) for seed in range(3)])
    generator = np.random.default_rng(0)
    for _ in range(60):
        max_draft_len = int(generator.choice((2, 5)))
        steps = plan.steps.copy()
        expected = uniforms(plan.keys, steps, max_draft_len, Purpose.ACCEPT)
        coins = plan.throw(max_draft_len, generator.random(3) < 0.7)
        assert (coins[:, :-1] == expected).all()
        assert (coins[:, -1:] == uniforms(plan.keys, steps, 1, Purpose.RECOVER)).all()
    assert len({*plan.steps.tolist()}) == 3


def test_the_last_column_decides_the_recovered_token():
    plan = plan_of(*[(law("rejection"), False, seed) for seed in (1, 2, 3)])
    coins = plan.throw(4, np.ones(3, dtype=np.bool_))
    steps = np.zeros(3, dtype=np.int64)
    accept = uniforms(plan.keys, steps, 4, Purpose.ACCEPT)
    recover = uniforms(plan.keys, steps, 1, Purpose.RECOVER)
    assert (coins == np.concatenate([accept, recover], axis=1)).all()


def test_a_request_without_a_draft_uses_no_step():
    plan = plan_of((EXACT, False, 1), (EXACT, False, 1))
    plan.throw(2, np.array([True, False]))
    assert plan.steps.tolist() == [1, 0]
    alone = plan_of((EXACT, False, 1))
    alone.throw(2, np.array([True]))
    later = plan.throw(2, np.array([True, True]))
    assert later[0].tolist() == alone.throw(2, np.array([True]))[0].tolist()


def test_coins_do_not_depend_on_the_batch_or_the_length_of_drafts():
    alone = plan_of((EXACT, False, 7)).throw(2, np.array([True]))
    among = plan_of((EXACT, False, 3), (EXACT, False, 7)).throw(5, np.array([True, True]))
    assert among[1, :2].tolist() == alone[0, :2].tolist()
    assert among[1, -1] == alone[0, -1]


class Store:
    """Requests whose parameters are read and counted."""

    def __init__(self):
        self.reads = 0
        self.requests = Requests(self.read, 0)

    def read(self, source):
        self.reads += 1
        return source


def test_the_plan_is_kept_while_the_batch_is():
    store, one = Store(), Asked(EXACT, False, 1)
    first = store.requests.plan(["a"], [one], {"a"})
    assert store.requests.plan(["a"], [one], {"a"}) is first
    assert store.reads == 1


def test_a_preempted_request_goes_on_where_it_was():
    store, one, other = Store(), Asked(EXACT, False, 1), Asked(EXACT, False, 2)
    store.requests.plan(["a", "b"], [one, other], {"a", "b"}).throw(1, np.array([True, True]))
    store.requests.plan(["b"], [other], {"a", "b"}).throw(1, np.array([True]))
    back = store.requests.plan(["b", "a"], [other, one], {"a", "b"})
    assert back.steps.tolist() == [2, 1]
    assert store.reads == 2


def test_a_finished_request_is_forgotten():
    store, one = Store(), Asked(EXACT, False, 1)
    store.requests.plan(["a"], [one], {"a"}).throw(1, np.array([True]))
    store.requests.plan(["b"], [one], {"b"})
    assert store.requests.plan(["a"], [one], {"a"}).steps.tolist() == [0]


def test_another_request_under_the_same_id_begins_anew():
    store = Store()
    store.requests.plan(["a"], [Asked(EXACT, False, 1)], {"a"}).throw(1, np.array([True]))
    again = store.requests.plan(["a"], [Asked(TYPICAL, False, 2)], {"a"})
    assert (again.steps.tolist(), again.keys.tolist()) == ([0], [2])
    assert again.groups[0].law is TYPICAL
