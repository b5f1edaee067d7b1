"""A place where a program that a model wrote can do no harm, and cannot claim to have passed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one program and its tests.

    Attributes:
        has_passed: the tests ran to their end and none failed.
        detail: why not; empty when passed.
    """

    has_passed: bool
    detail: str


class Sandbox(Protocol):
    """Runs a program and then its tests; thread-safe, one process a call."""

    @property
    def isolation(self) -> str:
        """What holds the program, in words, for reports."""

    def run(self, solution: str, tests: str) -> Verdict:
        """Return whether `tests`, which see what `solution` defines, ran to their end.

        Raises:
            SandboxError: the sandbox itself failed; says nothing of the program.
        """
