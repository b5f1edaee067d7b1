"""Evaluation prompts that must never be trained on, known by fingerprints only.

A fingerprint is 64 bits of BLAKE2b over `WORDS` successive words of a normalised text. One in
`EVERY` is kept of each evaluation prompt, and always the least one, so that every prompt has some;
a text that contains one of them word for word is refused. A prompt of fewer words has one
fingerprint, of all its words: it is found inside a longer text too, unless it has fewer than
`FEWEST`. The packaged file covers HumanEval, MBPP's test part and MBPP+, GSM8K test, IFEval,
MT-bench and Spec-Bench, but not IFBench; it holds no text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from importlib.resources import files

import numpy as np

WORDS = 12
FEWEST = 7
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
        return any(
            one in self._fingerprints
            for num_words in range(WORDS, FEWEST - 1, -1)
            for one in _fingerprints(text, num_words)
        )

    def to_bytes(self) -> bytes:
        """Return the content of the packaged file."""
        return np.array(sorted(self._fingerprints), "<u8").tobytes()


def _fingerprints(text: str, num_words: int = WORDS) -> Iterator[int]:
    """Yield one number a window of `num_words` words; a shorter text is one window."""
    words = re.findall(r"\w+", text.lower())
    for start in range(max(len(words) - num_words, 0) + 1 if words else 0):
        window = " ".join(words[start : start + num_words])
        digest = hashlib.blake2b(window.encode(), digest_size=8).digest()
        yield int.from_bytes(digest, "little")
