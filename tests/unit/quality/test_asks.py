"""What is asked: a subset that stays, seeds that arms share, prompts as the model reads them."""

import pytest
from tests.support.bench_arms import make_arms
from tests.support.quality_runs import TASKS, letter_plan

from leeway.core.types import SamplingParams
from leeway.quality.asks import (
    asks_of,
    conversations_of,
    prompts_of,
    request_seed,
    subset,
    subset_text,
)
from leeway.quality.suites.base import Task

MANY = [Task(f"task/{index}", "a", {}, 5) for index in range(50)]


def test_a_subset_keeps_the_order_and_lies_within_larger_ones():
    ten, twenty = subset(MANY, 10), subset(MANY, 20)
    assert len(ten) == 10 and all(one in twenty for one in ten)
    assert [MANY.index(one) for one in ten] == sorted(MANY.index(one) for one in ten)
    assert subset(list(reversed(MANY)), 10) == list(reversed(ten))
    assert subset(MANY, None) == subset(MANY, 99) == MANY


def test_a_subset_is_named():
    assert subset_text(10, 50).startswith("10 of 50 tasks, those whose ids have the least SHA-256")
    assert subset_text(50, 50) == "all 50 tasks"


def test_seeds_hang_on_run_task_and_sample_alone():
    seeds = {
        request_seed(seed, task, sample) for seed in (0, 1) for task in "ab" for sample in (1, 2)
    }
    assert len(seeds) == 8 and all(0 <= seed < 2**31 for seed in seeds)
    assert request_seed(0, "HumanEval/3", 1) == 434810384  # of the SHA-256, the first 31 bits


def test_each_ask_has_its_seed_and_its_room():
    sampling = SamplingParams(seed=5, temperature=0.7)
    asks = asks_of(TASKS, {}, sampling, sample=2, max_tokens=None)
    assert [one.sampling.seed for one in asks] == [
        request_seed(5, task.task_id, 2) for task in TASKS
    ]
    assert {one.sampling.max_tokens for one in asks} == {10}
    assert {one.sampling.temperature for one in asks} == {0.7}
    assert [one.text for one in asks] == [task.prompt for task in TASKS]
    assert all(one.prompt.token_ids == () for one in asks)
    same = asks_of(TASKS, {}, sampling, sample=2, max_tokens=3)
    assert {one.sampling.max_tokens for one in same} == {3}


def test_prompts_are_what_the_template_makes_of_one_turn():
    [arm] = make_arms(["plain"])
    parts = arm.engine.parts
    found = prompts_of(TASKS, parts.tokenizer, parts.chat_template)
    assert found["t1"].text == "bcda" and found["t1"].prompt.token_ids == (1, 2, 3, 0)
    assert conversations_of(TASKS)["t1"] == ({"role": "user", "content": "bcda"},)
    plan = letter_plan([arm], num_samples=2)
    assert plan.keys(["x"]) == {("x", f"t{task}", sample) for task in range(4) for sample in (1, 2)}


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.task_id)
def test_tasks_fit_the_table(task):
    assert set(task.prompt) <= set("abcde")
