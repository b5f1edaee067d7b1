"""Evaluation prompts that must never be trained on, known by fingerprints only.

A fingerprint is 64 bits of BLAKE2b over `WORDS` successive words of a normalised text. One in
`EVERY` is kept of each evaluation prompt, and always the least one, so that every prompt has some;
a text that contains one of them word for word is refused. The packaged file covers HumanEval,
MBPP's test part and MBPP+, GSM8K test, IFEval, MT-bench and Spec-Bench; it holds no text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from importlib.resources import files

import numpy as np

WORDS = 12
EVERY = 8
PACKAGED = "evaluation_prompts.bin"


class EvaluationPrompts:
    """A set of fingerprints."""

    def __init__(self, fingerprints: Iterable[int]) -> None:
        self._fingerprints = frozenset(fingerprints)

    def __len__(self) -> int:
        return len(self._fingerprints)

    @classmethod
    def packaged(cls) -> EvaluationPrompts:
        """Return the fingerprints that come with this package."""
        data = files("leeway.heads").joinpath(PACKAGED).read_bytes()
        return cls(int(value) for value in np.frombuffer(data, "<u8"))

    @classmethod
    def of(cls, texts: Iterable[str]) -> EvaluationPrompts:
        """Return the fingerprints of evaluation prompts."""
        kept: set[int] = set()
        for text in texts:
            every = list(_fingerprints(text))
            kept.update(one for one in every if one % EVERY == 0)
            kept.update((min(every),) if every else ())
        return cls(kept)

    def overlaps(self, text: str) -> bool:
        """Return whether the text holds words that mark an evaluation prompt."""
        return any(one in self._fingerprints for one in _fingerprints(text))

    def to_bytes(self) -> bytes:
        """Return the content of the packaged file."""
        return np.array(sorted(self._fingerprints), "<u8").tobytes()


def _fingerprints(text: str) -> Iterator[int]:
    """Yield one number a window of `WORDS` words; a shorter text is one window."""
    words = re.findall(r"\w+", text.lower())
    for start in range(max(len(words) - WORDS, 0) + 1 if words else 0):
        window = " ".join(words[start : start + WORDS])
        digest = hashlib.blake2b(window.encode(), digest_size=8).digest()
        yield int.from_bytes(digest, "little")
