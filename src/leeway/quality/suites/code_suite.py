"""Suites of Python functions: one scorer, four files.

In: records as the authors wrote them. Out: tasks whose completion is cut to a program and run with
the authors' own tests behind it. What a suite's records look like is said by a `Shape`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from leeway.core.errors import SandboxError
from leeway.quality.sandbox import Sandbox
from leeway.quality.suites.base import LoadedSuite, Score, Task
from leeway.quality.suites.data import DataFile, Record, load_tasks
from leeway.quality.suites.extract import extract_program

MAX_TOKENS = 768
"""Of an answer: the longest reference solutions have 400 tokens, and some prose stands around."""


@dataclass(frozen=True, slots=True)
class Function:
    """What a record asks for.

    Attributes:
        task_id: as evalplus writes it.
        name: of the function.
        prompt: the user turn.
        beginning: source that an answer may go on with; empty if there is none.
        tests: program that fails unless the function is right.
        solution: the authors' own program.
        also_needed: names beside the function's that the tests take from an answer.
        patience: how many times as long as usual the tests may take.
    """

    task_id: str
    name: str
    prompt: str
    beginning: str
    tests: str
    solution: str
    also_needed: tuple[str, ...] = ()
    patience: float = 1.0


@dataclass(frozen=True, slots=True)
class CodeSuite:
    """A suite whose answers are Python functions; see `Suite`."""

    name: str
    licence: str
    file: DataFile
    functions: Callable[[list[Record]], list[Function]]
    needs_sandbox: bool = True
    parts: Mapping[str, str] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """Where its authors publish it."""
        return self.file.url

    def load(self, data_dir: Path | None, cache_dir: Path, *, offline: bool = False) -> LoadedSuite:
        """Return the tasks; see `Suite`."""
        return load_tasks(self.file, self._tasks, data_dir, cache_dir, offline=offline)

    def score(self, task: Task, completion: str, sandbox: Sandbox | None) -> Score:
        """Return whether the program in an answer passes all tests; see `Suite`."""
        if sandbox is None:
            raise SandboxError(f"suite {self.name} runs programs and was given no sandbox for them")
        reference = task.reference
        program = extract_program(
            completion, reference["name"], reference["beginning"], reference["also_needed"]
        )
        if not program:
            return Score(False, "no code in the answer", "")
        verdict = sandbox.run(program, reference["tests"], patience=reference["patience"])
        return Score(verdict.has_passed, verdict.detail, program)

    def _tasks(self, records: list[Record]) -> list[Task]:
        return [
            Task(
                one.task_id,
                one.prompt,
                {
                    "name": one.name,
                    "beginning": one.beginning,
                    "tests": one.tests,
                    "solution": one.solution,
                    "also_needed": one.also_needed,
                    "patience": one.patience,
                },
                MAX_TOKENS,
            )
            for one in self.functions(records)
        ]
