"""GSM8K: word problems whose answer is one number.

Asked without worked examples: instruct models write out their steps when told to. Source: Cobbe et
al. 2021, arXiv 2110.14168. Deviates: published figures often use 4 or 8 examples in the prompt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from leeway.quality.sandbox import Sandbox
from leeway.quality.suites.base import LoadedSuite, Score, Task
from leeway.quality.suites.data import DataFile, Record, load_tasks
from leeway.quality.suites.numbers import final_number

PROMPT = (
    "{question}\n\nThink step by step. End with a line of its own that holds only the final "
    "number, like this:\n#### 42"
)
MAX_TOKENS = 512
FILE = DataFile(
    filename="gsm8k_test.jsonl",
    url="https://raw.githubusercontent.com/openai/grade-school-math/master/grade_school_math/data/"
    "test.jsonl",
    sha256="3730d312f6e3440559ace48831e51066acaca737f6eabec99bccb9e4b3c39d14",
)


@dataclass(frozen=True, slots=True)
class Gsm8k:
    """Grade-school word problems; see `Suite`."""

    name: str = "gsm8k"
    licence: str = "MIT"
    source: str = FILE.url
    needs_sandbox: bool = False
    parts: Mapping[str, str] = field(default_factory=dict)

    def load(self, data_dir: Path | None, cache_dir: Path, *, offline: bool = False) -> LoadedSuite:
        """Return the tasks; see `Suite`."""
        return load_tasks(FILE, _tasks, data_dir, cache_dir, offline=offline)

    def score(self, task: Task, completion: str, sandbox: Sandbox | None) -> Score:
        """Return whether the answer's number is the reference's; see `Suite`."""
        found, wanted = final_number(completion), Fraction(task.reference["number"])
        if found is None:
            return Score(False, "no number in the answer", "")
        is_right = found == wanted
        return Score(is_right, "" if is_right else f"{found}, not {wanted}", str(found))


def _tasks(records: list[Record]) -> list[Task]:
    return [
        Task(
            f"gsm8k/{number}",
            PROMPT.format(question=str(record["question"]).strip()),
            {"number": str(final_number(str(record["answer"])))},
            MAX_TOKENS,
        )
        for number, record in enumerate(records)
    ]


GSM8K = Gsm8k()
