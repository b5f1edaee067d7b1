"""IFEval: instructions whose keeping a program can check.

Source: Zhou et al. 2023, arXiv 2311.07911; how each is checked: `ifeval_checks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from leeway.quality.sandbox import Sandbox
from leeway.quality.suites.base import LoadedSuite, Score, Task
from leeway.quality.suites.data import DataFile, Record, load_tasks
from leeway.quality.suites.ifeval_checks import CHECKS, follows, follows_loosely
from leeway.quality.suites.language import check_available

MAX_TOKENS = 1280
FILE = DataFile(
    filename="ifeval_input_data.jsonl",
    url="https://raw.githubusercontent.com/google-research/google-research/master/"
    "instruction_following_eval/data/input_data.jsonl",
    sha256="67ffeee0fcb87c317c5b08a2de85557b4a7e96ada6178aa645b4954fe4b53d49",
)
PARTS = {
    "prompt_strict": "1 if every instruction is followed as the answer stands",
    "prompt_loose": "1 if every instruction is followed once first line, last line or asterisks go",
    "num_instructions": "instructions in the prompt",
    "num_strict": "of them followed as the answer stands; reports say instruction_strict, of all",
    "num_loose": "of them followed loosely",
}


@dataclass(frozen=True, slots=True)
class Ifeval:
    """Instructions that a program can check; see `Suite`."""

    name: str = "ifeval"
    licence: str = "Apache-2.0"
    source: str = FILE.url
    needs_sandbox: bool = False
    parts: Mapping[str, str] = field(default_factory=lambda: PARTS)

    def load(self, data_dir: Path | None, cache_dir: Path, *, offline: bool = False) -> LoadedSuite:
        """Return the tasks; see `Suite`.

        Raises:
            ConfigError: also if what tells languages apart is not installed.
        """
        check_available()
        return load_tasks(FILE, _tasks, data_dir, cache_dir, offline=offline)

    def score(self, task: Task, completion: str, sandbox: Sandbox | None) -> Score:
        """Return which instructions an answer follows; correct is all of them, strictly."""
        asked = task.reference["instructions"]
        strict = [follows(name, completion, given) for name, given in asked]
        loose = [follows_loosely(name, completion, given) for name, given in asked]
        broken = [name for (name, _), is_kept in zip(asked, strict, strict=True) if not is_kept]
        parts = {
            "prompt_strict": float(all(strict)),
            "prompt_loose": float(all(loose)),
            "num_instructions": float(len(asked)),
            "num_strict": float(sum(strict)),
            "num_loose": float(sum(loose)),
        }
        detail = f"not followed: {', '.join(broken)}" if broken else ""
        return Score(not broken, detail, completion, parts)


def _tasks(records: list[Record]) -> list[Task]:
    """Return the tasks.

    Raises:
        ValueError: an instruction has no check.
    """
    unknown = {name for one in records for name in one["instruction_id_list"]} - CHECKS.keys()
    if unknown:
        raise ValueError(f"no check for {', '.join(sorted(unknown))}")
    return [
        Task(
            f"ifeval/{one['key']}",
            str(one["prompt"]),
            {
                "instructions": tuple(
                    zip(one["instruction_id_list"], map(dict, one["kwargs"]), strict=True)
                )
            },
            MAX_TOKENS,
        )
        for one in records
    ]


IFEVAL = Ifeval()
