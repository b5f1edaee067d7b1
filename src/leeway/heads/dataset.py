"""The training data on disk: shards of answers with hidden states, read without copying.

A shard is three NumPy files in one folder: `tokens.npy` int32 [sum(n + 1)], `hidden.npy` float16
[sum(n), hidden_size] and `lengths.npy` int64 [answers, 2]: n and where the answer begins. A folder
is renamed into place when it is whole, so a half-written one is never read.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leeway.heads.capture import Captured


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: `token_ids` [n + 1], `hidden` [n, hidden_size], `start` of the answer's text."""

    token_ids: NDArray[np.int32]
    hidden: NDArray[np.float16]
    start: int


def write_shard(folder: Path, answers: Sequence[Captured], about: dict[str, Any]) -> None:
    """Write a shard; an interrupted one leaves no trace but a folder that ends in .part."""
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    states = [np.concatenate(answer.hidden) for answer in answers]
    lengths = [
        (len(rows), answer.num_prompt_tokens) for rows, answer in zip(states, answers, strict=True)
    ]
    tokens = np.concatenate(
        [
            np.array(answer.token_ids[: len(rows) + 1], np.int32)
            for rows, answer in zip(states, answers, strict=True)
        ]
    )
    np.save(part / "tokens.npy", tokens)
    np.save(part / "hidden.npy", np.concatenate(states))
    np.save(part / "lengths.npy", np.array(lengths, np.int64).reshape(-1, 2))
    (part / "about.json").write_text(json.dumps(about, indent=2), encoding="utf-8")
    part.rename(folder)


def shard_folders(root: Path) -> list[Path]:
    """Return the whole shards, in order."""
    return sorted(path for path in root.glob("shard-*") if not path.name.endswith(".part"))


def read_answers(root: Path) -> list[Answer]:
    """Return every answer of every shard, hidden states still on disk."""
    answers = []
    for folder in shard_folders(root):
        tokens = np.load(folder / "tokens.npy", mmap_mode="r")
        hidden = np.load(folder / "hidden.npy", mmap_mode="r")
        row = 0
        for index, (length, start) in enumerate(np.load(folder / "lengths.npy")):
            first = row + index
            answers.append(
                Answer(tokens[first : first + length + 1], hidden[row : row + length], int(start))
            )
            row += int(length)
    return answers
