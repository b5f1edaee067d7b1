"""A suite of letters and results whose every figure is known."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from leeway.bench.window import tally_to_json
from leeway.core.receipt import Tally
from leeway.core.types import SamplingParams
from leeway.quality.asks import prompts_of
from leeway.quality.loss_meter import losses_of
from leeway.quality.repetition import all_counts, words_of
from leeway.quality.results import SCHEMA, Result
from leeway.quality.run import Plan
from leeway.quality.suites.base import LoadedSuite, Score, Task

TASKS = tuple(Task(f"t{index}", "abcd"[index:] + "a", {}, 10) for index in range(4))
IDENTITY = {
    "version": "0.1.0",
    "model": {"name": "table", "sha256": "m" * 64},
    "arms": {"soft": "typical@ngram:3", "exact": "rejection@ngram:3"},
    "first_arm": "exact",
    "sampling": {
        "temperature": 1.0, "top_p": 0.95, "top_k": 20, "min_p": 0.0,
        "max_tokens": "of each task", "seed": 0,
    },
    "batch": 4,
    "suite": {
        "name": "letters", "licence": "MIT", "source": "here", "sha256": "d" * 64,
        "is_known": True, "num_tasks": 100,
    },
    "isolation": None,
}  # fmt: skip


@dataclass
class LetterSuite:
    """Right is what holds a letter b; `scored` are the completions seen."""

    name: str = "letters"
    licence: str = "MIT"
    source: str = "here"
    needs_sandbox: bool = False
    parts: dict[str, str] = field(default_factory=lambda: {"share": "letters that are b"})
    scored: list[tuple[str, str]] = field(default_factory=list)

    def load(self, data_dir: Path | None, cache_dir: Path, *, offline: bool = False) -> LoadedSuite:
        return LoadedSuite(TASKS, "d" * 64, "here", True)

    def score(self, task, completion, sandbox):
        self.scored.append((task.task_id, completion))
        share = completion.count("b") / max(1, len(completion))
        is_correct = share > 0
        return Score(is_correct, "" if is_correct else "no b", completion, {"share": share})


def letter_plan(arms, suite: LetterSuite | None = None, num_samples: int = 2, **sampling) -> Plan:
    """Return a plan of the letters over the tables of `bench_arms`."""
    given = {"seed": 7, "stop": ("e",)} | sampling
    parts = arms[0].engine.parts
    return Plan(
        suite=suite or LetterSuite(),
        tasks=TASKS,
        prompts=prompts_of(TASKS, parts.tokenizer, parts.chat_template),
        sampling=SamplingParams(**given),
        num_samples=num_samples,
        max_tokens=None,
        sandbox=None,
        num_scorers=2,
    )


def result(arm="exact", task="t0", sample=1, *, right=True, text="some words here", **changes):
    """Return one answer of ten tokens in three seconds."""
    tally = Tally(
        num_verify_steps=5, num_output_tokens=10, num_draft_tokens=8, num_accepted_tokens=5,
        num_decided=8, num_outside_support=1, num_deferred=3, loss_tv_sum=0.8, loss_tv_max=0.2,
    )  # fmt: skip
    given = {
        "schema": SCHEMA,
        "arm": arm,
        "task_id": task,
        "sample": sample,
        "seed": 1,
        "error": None,
        "is_correct": right,
        "detail": "",
        "parts": {},
        "finish_reason": "stop",
        "prompt_tokens": 4,
        "output_tokens": 10,
        "text_digest": hashlib.sha256(text.encode()).hexdigest(),
        "ngrams": all_counts(words_of(text)),
        "void": None,
        "note": None,
        "receipt": {
            "law": "rejection", "options": {}, "guarantee": "exact_distribution", "drafter": "ngram"
        },
        "tally": tally_to_json(tally),
        "losses": losses_of([0.2, 0.2, 0.2, 0.2, 0.0, 0.0, 0.0, 0.0]),
        "decode_s": 3.0,
    }  # fmt: skip
    return Result(**(given | changes))


def failed(arm="exact", task="t0", sample=1, error="HTTP 500: no"):
    """Return a request without an answer."""
    return result(
        arm, task, sample, error=error, is_correct=None, finish_reason=None, output_tokens=0,
        receipt={}, tally=None, losses=None, decode_s=0.0,
    )  # fmt: skip
