"""Answers to train heads on that need no model: numbers that say where they belong."""

from __future__ import annotations

import numpy as np

from leeway.backends.base import ForwardOutput, SequenceInput
from leeway.backends.tabular import TabularBackend
from leeway.heads.dataset import Answer


def random_answer(
    generator: np.random.Generator, length: int, hidden_size: int, vocab_size: int, start: int = 1
) -> Answer:
    """Return an answer of random tokens and states."""
    return Answer(
        generator.integers(0, vocab_size, length + 1).astype(np.int32),
        generator.standard_normal((length, hidden_size)).astype(np.float16),
        start,
    )


def marked_answer(number: int, length: int, start: int = 1) -> Answer:
    """Return an answer whose token at p is 1000 * number + p, and whose state is (number, p)."""
    places = np.arange(length + 1)
    hidden = np.stack([np.full(length, number), places[:-1]], axis=1)
    return Answer((1000 * number + places).astype(np.int32), hidden.astype(np.float16), start)


class HalfStates(TabularBackend):
    """A table whose states survive half precision; spoilt by the next forward like its parent's."""

    def forward(self, inputs: list[SequenceInput]) -> ForwardOutput:
        output = super().forward(inputs)
        self._last_hidden = output.hidden % 1024
        return ForwardOutput(output.logits, self._last_hidden)
