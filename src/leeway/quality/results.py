"""Results: one line a task, sample and arm, written as soon as it is scored.

In: scored answers. Out: JSON lines that a run goes on from and every report is computed from. What
the answer said is in a file of its own, and only if it was asked for.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from leeway.core.errors import ConfigError
from leeway.core.files import write_whole
from leeway.quality.loss_meter import Losses
from leeway.quality.repetition import Counts

SCHEMA = 1
RUN, RESULTS, COMPLETIONS = "run.json", "results.jsonl", "completions.jsonl"
LENGTH = "length"
Key = tuple[str, str, int]
"""Arm, task, sample."""
Line = TypeVar("Line")


@dataclass(frozen=True, slots=True)
class Result:
    """One answer, or why there is none.

    Attributes:
        sample: from 1; with the task it makes the seed, the same in every arm.
        error: why the request gave no answer; None if it did. Such a line has no score.
        is_correct: as the suite scored the text, whether or not it was cut.
        parts: further measures of the suite.
        ngrams: distinct and all n-grams of its words, n from 1.
        void: why what ran is not what the arm says.
        note: what a reader should know of the law that judged.
        receipt: of what ran: law, options, guarantee, verifier, drafter, temperature.
        tally: the receipt's counts and sums.
        losses: position by position; None where it cannot be seen.
        decode_s: of the receipt; of a server from its first text to the end.
    """

    schema: int
    arm: str
    task_id: str
    sample: int
    seed: int
    error: str | None
    is_correct: bool | None
    detail: str
    parts: dict[str, float]
    finish_reason: str | None
    prompt_tokens: int
    output_tokens: int
    text_digest: str
    ngrams: tuple[Counts, ...]
    void: str | None
    note: str | None
    receipt: dict[str, Any]
    tally: dict[str, Any] | None
    losses: Losses | None
    decode_s: float

    @property
    def key(self) -> Key:
        """Which of a run's answers it is."""
        return (self.arm, self.task_id, self.sample)

    @property
    def is_truncated(self) -> bool:
        """Whether the answer was cut at its most tokens or by the context."""
        return self.finish_reason == LENGTH

    @property
    def is_strictly_correct(self) -> bool:
        """Whether it is right and whole."""
        return bool(self.is_correct) and not self.is_truncated


@dataclass(frozen=True, slots=True)
class SavedCompletion:
    """What an answer said, for scoring it again.

    `prompt` is its text as a model of this process read it; of a server's answer the user's turn.
    """

    schema: int
    arm: str
    task_id: str
    sample: int
    finish_reason: str
    prompt: str
    completion: str
    solution: str


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What a folder's results have in common.

    Attributes:
        identity: all that must be equal for results to stand in one folder.
        commands: command lines that filled it.
    """

    schema: int
    identity: dict[str, Any]
    commands: tuple[str, ...]


def append_lines(path: Path, lines: Iterable[object]) -> None:
    """Write lines behind those that are there, at once, and see them on the disk."""
    text = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    with path.open("ab") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def read_results(folder: Path) -> list[Result]:
    """Return the results of a folder, the last one of each answer, in the order of writing.

    A line that a kill cut off at the end is left out.

    Raises:
        ConfigError: a line is no result of this version's form.
    """
    path = folder / RESULTS
    found: dict[Key, Result] = {}
    for one in read_lines(path, Result) if path.exists() else []:
        if one.schema != SCHEMA:
            raise ConfigError(
                f"{path} has the form {one.schema} and this version writes {SCHEMA}; run into "
                "another folder"
            )
        found.pop(one.key, None)
        found[one.key] = one
    return list(found.values())


def read_lines(path: Path, kind: type[Line]) -> list[Line]:
    """Return the lines of a file; one that a kill cut off at the end is left out.

    Raises:
        ConfigError: the file cannot be read, or a whole line is not of this kind.
    """
    try:
        whole, _, _ = path.read_bytes().rpartition(b"\n")
    except OSError as reason:
        raise ConfigError(f"{str(path)!r} cannot be read: {reason.strerror}") from None
    found = []
    for number, line in enumerate(whole.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            found.append(msgspec.json.decode(line, type=kind))
        except msgspec.DecodeError as reason:
            raise ConfigError(
                f"{path}, line {number}: not a line of a quality run ({reason}); move it away"
            ) from None
    return found


def cut_broken_line(path: Path) -> None:
    """Take away what a kill left behind the last whole line, so that lines can follow."""
    if not path.exists():
        return
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        with path.open("r+b") as file:
            file.truncate(whole)


def read_info(folder: Path) -> RunInfo | None:
    """Return what a folder's results have in common; None where no run began.

    Raises:
        ConfigError: the file is not of this version's form.
    """
    path = folder / RUN
    if not path.exists():
        return None
    try:
        info = msgspec.json.decode(path.read_bytes(), type=RunInfo)
    except (OSError, msgspec.DecodeError) as reason:
        raise ConfigError(f"{path} is not of a quality run: {reason}; move it away") from None
    if info.schema != SCHEMA:
        raise ConfigError(
            f"{path} has the form {info.schema} and this version writes {SCHEMA}; run into "
            "another folder"
        )
    return info


def write_info(folder: Path, identity: Mapping[str, Any], commands: Sequence[str]) -> None:
    """Write what a folder's results have in common; whole or not at all."""
    info = {"schema": SCHEMA, "identity": identity, "commands": list(commands)}
    text = json.dumps(info, indent=2, ensure_ascii=False) + "\n"
    write_whole(folder / RUN, text.encode())
