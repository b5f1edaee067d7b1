"""What a suite is: tasks from one data file, and a scorer of completions.

In: a folder or a cache. Out: frozen tasks and scores. Knows no suite by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from leeway.quality.sandbox import Sandbox


@dataclass(frozen=True, slots=True)
class Task:
    """One question of a suite.

    Attributes:
        task_id: unique within the suite; in code suites as evalplus writes it ("Mbpp/2").
        prompt: text of the one user turn.
        reference: what the suite's own scorer needs; nothing else reads it.
        max_tokens: room that a good answer does not exceed.
    """

    task_id: str
    prompt: str
    reference: Mapping[str, Any]
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Score:
    """How one completion did.

    Attributes:
        is_correct: the suite's main measure (IFEval: every instruction followed, strict).
        detail: why not; empty when correct.
        extracted: what was judged: the program, the number, or the text itself.
        parts: further measures of the suite, each named in its `parts`; empty for most.
    """

    is_correct: bool
    detail: str
    extracted: str
    parts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LoadedSuite:
    """A suite's tasks in file order.

    Attributes:
        sha256: of the data file's content, unpacked (hex).
        where: path or package that the data came from.
        is_known: whether the digest is the one that published figures rest on.
    """

    tasks: tuple[Task, ...]
    sha256: str
    where: str
    is_known: bool


class Suite(Protocol):
    """One evaluation suite."""

    @property
    def name(self) -> str:
        """Name that users type."""

    @property
    def licence(self) -> str:
        """Licence of the data, as an SPDX identifier."""

    @property
    def source(self) -> str:
        """Where its authors publish it."""

    @property
    def needs_sandbox(self) -> bool:
        """Whether scoring runs the completion as a program."""

    @property
    def parts(self) -> Mapping[str, str]:
        """Name and meaning of each entry of `Score.parts`."""

    def load(self, data_dir: Path | None, cache_dir: Path, *, offline: bool = False) -> LoadedSuite:
        """Return the tasks, from a folder, else a package, else the cache, else their home.

        Raises:
            ConfigError: the folder has no such file, or the file is not this suite's.
            FetchError: it can be had from nowhere; each place is named with its reason.
        """

    def score(self, task: Task, completion: str, sandbox: Sandbox | None) -> Score:
        """Return how a completion did; a program that fails in any way is a wrong answer.

        Args:
            task: one of this suite's.
            completion: the answer's text as it came, or just the program.
            sandbox: needed where `needs_sandbox`.

        Raises:
            SandboxError: the sandbox itself failed; says nothing of the answer.
        """
