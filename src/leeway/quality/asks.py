"""What is asked: tasks as prompts, the fixed subset of a suite, and each request's seed.

In: a suite's tasks. Out: asks, the same for every arm. Common random numbers: the seed of a task
and sample is the same in every arm, so arms that decide alike say the same, and differ by what the
law changed rather than by luck.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from leeway.bench.workload import Message, Prompt, Source, encode
from leeway.core.types import SamplingParams
from leeway.quality.suites.base import Task
from leeway.text.chat_template import ChatTemplate
from leeway.text.tokenizer import Tokenizer

_SEED_BITS = 31  # the least that servers take


@dataclass(frozen=True, slots=True)
class Ask:
    """One task and sample.

    Attributes:
        prompt: has no token ids where nothing reads them.
        text: the prompt as a model of this process reads it; else the user's turn.
    """

    task: Task
    sample: int
    prompt: Prompt
    text: str
    sampling: SamplingParams


def subset(tasks: Sequence[Task], num_tasks: int | None) -> list[Task]:
    """Return so many tasks, in file order: those whose ids have the least SHA-256.

    A smaller subset lies within every larger one.
    """
    if num_tasks is None or num_tasks >= len(tasks):
        return list(tasks)
    chosen = sorted(tasks, key=lambda task: _digest(task.task_id))[:num_tasks]
    ids = {task.task_id for task in chosen}
    return [task for task in tasks if task.task_id in ids]


def subset_text(num_tasks: int, num_in_suite: int) -> str:
    """Return the name of a subset."""
    if num_tasks == num_in_suite:
        return f"all {num_in_suite} tasks"
    return f"{num_tasks} of {num_in_suite} tasks, those whose ids have the least SHA-256"


def request_seed(seed: int, task_id: str, sample: int) -> int:
    """Return the seed of a task and sample; `seed` is the run's."""
    return int.from_bytes(_digest(f"{seed}/{task_id}/{sample}")[:8], "big") >> (64 - _SEED_BITS)


def messages_of(task: Task) -> tuple[Message, ...]:
    """Return the conversation that asks a task."""
    return ({"role": "user", "content": task.prompt},)


def conversations_of(tasks: Sequence[Task]) -> dict[str, tuple[Message, ...]]:
    """Return the conversations by task."""
    return {task.task_id: messages_of(task) for task in tasks}


@dataclass(frozen=True, slots=True)
class Prompted:
    """A task's prompt as a model of this process reads it."""

    prompt: Prompt
    text: str


def prompts_of(
    tasks: Sequence[Task], tokenizer: Tokenizer, template: ChatTemplate
) -> dict[str, Prompted]:
    """Return the prompts by task.

    Raises:
        RequestError: the chat template refuses a conversation.
    """
    sources = [Source(task.task_id, messages_of(task)) for task in tasks]
    prompts = encode(sources, tokenizer, template)
    return {
        task.task_id: Prompted(
            prompt, template.render(messages_of(task)) if template.exists else task.prompt
        )
        for task, prompt in zip(tasks, prompts, strict=True)
    }


def asks_of(
    tasks: Sequence[Task],
    prompts: Mapping[str, Prompted],
    sampling: SamplingParams,
    *,
    sample: int,
    max_tokens: int | None,
) -> list[Ask]:
    """Return one ask a task.

    Args:
        tasks: in the order of asking.
        prompts: by task; a task that has none is asked by its messages alone.
        sampling: of every ask; its seed is the run's.
        sample: from 1.
        max_tokens: the same for all; None takes each task's own.
    """
    run_seed = sampling.seed or 0
    bare = {task.task_id: Prompted(Prompt(task.task_id, ()), task.prompt) for task in tasks}
    known = {**bare, **prompts}
    return [
        Ask(
            task,
            sample,
            known[task.task_id].prompt,
            known[task.task_id].text,
            replace(
                sampling,
                seed=request_seed(run_seed, task.task_id, sample),
                max_tokens=task.max_tokens if max_tokens is None else max_tokens,
            ),
        )
        for task in tasks
    ]


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
