"""A run: every arm asked every task, each answer scored and written as it comes.

Sample by sample, one arm behind another: after each sample all arms have answered the same tasks.
Scoring stops the engine, so that it takes nothing from decoding; answers that end close together
are scored at once. What a kill leaves unscored is asked again, with the same seeds.

In: arms, tasks, a suite. Out: results, in files too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leeway.bench.runs import differences
from leeway.bench.window import tally_to_json
from leeway.core.errors import ConfigError
from leeway.core.types import SamplingParams
from leeway.quality.arms import Answered, AnsweringArm, wake
from leeway.quality.asks import Ask, Prompted, asks_of
from leeway.quality.repetition import all_counts, words_of
from leeway.quality.results import (
    COMPLETIONS,
    RESULTS,
    SCHEMA,
    Key,
    Result,
    SavedCompletion,
    append_lines,
    cut_broken_line,
    read_info,
    read_results,
    write_info,
)
from leeway.quality.sandbox import Sandbox
from leeway.quality.suites.base import Score, Suite, Task


@dataclass(frozen=True, slots=True)
class Plan:
    """What to ask, and how to score it.

    Attributes:
        tasks: in the order of asking.
        prompts: by task, where an arm of this process reads them.
        sampling: of every ask; its seed is the run's.
        max_tokens: the same for all; None takes each task's own.
        sandbox: where the suite needs one.
        num_scorers: answers scored at once.
    """

    suite: Suite
    tasks: Sequence[Task]
    prompts: Mapping[str, Prompted]
    sampling: SamplingParams
    num_samples: int
    max_tokens: int | None
    sandbox: Sandbox | None
    num_scorers: int = 1

    def asks(self, sample: int) -> list[Ask]:
        """Return one ask a task."""
        return asks_of(
            self.tasks, self.prompts, self.sampling, sample=sample, max_tokens=self.max_tokens
        )

    def keys(self, arms: Sequence[str]) -> set[Key]:
        """Return every answer that is wanted."""
        samples = range(1, self.num_samples + 1)
        return {
            (arm, task.task_id, sample) for arm in arms for task in self.tasks for sample in samples
        }


@dataclass(frozen=True, slots=True)
class Progress:
    """Told before every answer: where the run is. Answers of earlier processes count as done."""

    arm: str
    sample: int
    num_done: int
    num_done_before: int
    num_wanted: int


@dataclass(slots=True)
class Keeper:
    """Where results go: a folder, or nowhere.

    `has_completions`: whether what answers say is kept too, in a file of its own.
    """

    folder: Path | None
    has_completions: bool = False
    results: list[Result] = field(default_factory=list)

    def take(self, results: Sequence[Result], said: Sequence[SavedCompletion]) -> None:
        """Keep results, and what was said if that is kept; on disk before anything else."""
        if self.folder is not None:
            if self.has_completions:
                append_lines(self.folder / COMPLETIONS, said)
            append_lines(self.folder / RESULTS, results)
        self.results += results


def open_folder(
    folder: Path, identity: Mapping[str, Any], command: str, *, has_completions: bool
) -> Keeper:
    """Return a folder's keeper with the results that it holds of this very run.

    Raises:
        ConfigError: the folder holds results of other code, another model, suite, sampler or arms,
            or cannot be written.
    """
    info = read_info(folder) if folder.is_dir() else None
    if info is not None:
        differing = next(differences(info.identity, identity), None)
        if differing is not None:
            name, old, new = differing
            raise ConfigError(
                f"{str(folder)!r} holds results of another run: {name} was {old} and is {new}; "
                "run into another folder, or go back to what it was"
            )
    commands = dict.fromkeys((*(() if info is None else info.commands), command))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_info(folder, identity, list(commands))
        for name in (RESULTS, COMPLETIONS):
            cut_broken_line(folder / name)
    except OSError as reason:
        raise ConfigError(f"--out {str(folder)!r} cannot be written: {reason.strerror}") from None
    return Keeper(folder, has_completions, read_results(folder))


def run(
    arms: Sequence[AnsweringArm],
    plan: Plan,
    keeper: Keeper,
    *,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> None:
    """Ask what was not answered yet; an ask that ended in an error is asked again.

    Raises:
        SandboxError: the sandbox failed; says nothing of the answers.
        ConfigError: a server refuses the first request.
    """
    wanted = plan.keys([arm.name for arm in arms])
    done = {one.key for one in keeper.results if one.error is None} & wanted
    num_before = num_done = len(done)
    for sample in range(1, plan.num_samples + 1):
        for arm in arms:
            asks = [
                ask for ask in plan.asks(sample) if (arm.name, ask.task.task_id, sample) not in done
            ]
            if not asks:
                continue
            wake(arm, asks[0])
            on_progress(Progress(arm.name, sample, num_done, num_before, len(wanted)))
            for _ in _scored(arm, asks, plan, keeper):
                num_done += 1
                on_progress(Progress(arm.name, sample, num_done, num_before, len(wanted)))


def _scored(arm: AnsweringArm, asks: Sequence[Ask], plan: Plan, keeper: Keeper) -> Iterator[Result]:
    """Yield each result once it is kept; a few answers are scored at once."""
    with ThreadPoolExecutor(plan.num_scorers) as pool:
        waiting: list[Answered] = []
        num_left = len(asks)
        for answered in arm.answers(asks):
            waiting.append(answered)
            num_left -= 1
            if num_left and len(waiting) < plan.num_scorers:
                continue
            scores = list(pool.map(lambda one: _score(one, plan), waiting))
            found = [
                result_of(arm.name, one, score) for one, score in zip(waiting, scores, strict=True)
            ]
            keeper.take(found, _said(arm.name, waiting, scores))
            waiting = []
            yield from found


def _score(answered: Answered, plan: Plan) -> Score | None:
    if answered.error is not None:
        return None
    return plan.suite.score(answered.ask.task, answered.text, plan.sandbox)


def result_of(arm: str, answered: Answered, score: Score | None) -> Result:
    """Return the line that is kept of an answer."""
    ask = answered.ask
    return Result(
        schema=SCHEMA,
        arm=arm,
        task_id=ask.task.task_id,
        sample=ask.sample,
        seed=ask.sampling.seed or 0,
        error=answered.error,
        is_correct=None if score is None else score.is_correct,
        detail="" if score is None else score.detail,
        parts={} if score is None else dict(score.parts),
        finish_reason=answered.finish_reason,
        prompt_tokens=answered.prompt_tokens,
        output_tokens=answered.output_tokens,
        text_digest=hashlib.sha256(answered.text.encode()).hexdigest(),
        ngrams=all_counts(words_of(answered.text)),
        void=answered.void,
        note=answered.note,
        receipt=answered.receipt,
        tally=None if answered.tally is None else tally_to_json(answered.tally),
        losses=answered.losses,
        decode_s=answered.decode_s,
    )


def _said(
    arm: str, answers: Sequence[Answered], scores: Sequence[Score | None]
) -> list[SavedCompletion]:
    return [
        SavedCompletion(
            schema=SCHEMA,
            arm=arm,
            task_id=one.ask.task.task_id,
            sample=one.ask.sample,
            finish_reason=one.finish_reason or "",
            prompt=one.ask.text,
            completion=one.text,
            solution=score.extracted,
        )
        for one, score in zip(answers, scores, strict=True)
        if score is not None
    ]
