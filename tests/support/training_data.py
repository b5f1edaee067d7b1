"""Answers to train heads on that need no model: numbers that say where they belong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from leeway.backends.base import ForwardOutput, SequenceInput
from leeway.backends.tabular import Table, TabularBackend, random_table
from leeway.backends.tabular_state import state_at
from leeway.engine.engine import Engine
from leeway.heads.capture import CaptureDrafter
from leeway.heads.dataset import Answer
from tests.support.tabular_engine import make_engine

VOCAB = 5
ORDER = 2


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


def capturing_engine(
    table: Table | None = None, eos_token_id: int | None = None, **options: int
) -> Engine:
    """Return an engine over a table that captures, with states that fit half precision."""
    table = table or random_table(VOCAB, ORDER, seed=1)
    engine = make_engine(table, order=ORDER, eos_token_id=eos_token_id, **options)
    backend = HalfStates(table, ORDER)
    return Engine(replace(engine.parts, backend=backend, drafter=CaptureDrafter()), engine.config)


def expected_states(tokens: list[int]) -> NDArray[np.float64]:
    """Return the states of all positions of a text."""
    rows = [state_at(tokens[: place + 1]).to_row(ORDER) for place in range(len(tokens))]
    return np.array(rows) % 1024
