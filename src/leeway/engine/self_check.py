"""The self-check at load: do forwards of one, a few and many rows say the same of one text?

In: a backend that nobody uses yet. Out: which of its lanes may be used, and how far they lay apart.

A verify step runs a few rows at once, a prompt many, plain decoding one, each by kernels of its
own. Where one of them is wrong on a machine, answers are no longer the model's, and no receipt can
tell: the rows themselves are wrong. So one short text is read in each way, every time from nothing,
and blocks once more behind other tokens that were rolled back. Two lanes that agree outvote the
third, which is then not used:

- `block`: nothing is drafted, and rows are never padded to a block;
- `plain`: single rows are always padded to a block (row shape `stable`);
- `prompt`: prompts are read in pieces as short as a block.

Rows agree where they are near in total variation: other kernels round otherwise. Row shape `stable`
promises equal bits; whether it kept that here is told, too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from leeway.backends.base import Backend, SequenceInput
from leeway.core.config import EngineConfig
from leeway.core.errors import BackendError
from leeway.core.receipt import Demotion
from leeway.core.types import FloatArray, Request
from leeway.sampling.warp import softmax

Lane = Literal["plain", "block", "prompt"]

MAX_TV = 0.5
"""Rows further apart than this in total variation were not computed from the same model. Rounding
alone, of activations to 8 bits by one kernel and not by another, was seen to make up 0.13. On a CPU
with AVX2 alone, where activations stay floats, one row of SmolLM2 135M in 8 bits lay 3.9e-4 from
several with a 16-bit cache and 1.0e-2 with an 8-bit one; blocks and prompts had the same bits."""
_TEXT_LEN = 12
_MAX_BLOCK_LEN = 8
_WORDS: dict[Lane, tuple[str, str]] = {
    "plain": ("one row", "single rows are padded to a block (row shape stable)"),
    "block": ("a few rows", "nothing is drafted"),
    "prompt": ("many rows", "prompts are read in short pieces"),
}

logger = logging.getLogger("leeway")


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """What was found at load.

    Attributes:
        declined: the lane that the two others outvoted.
        largest_tv: largest total variation between rows of lanes that are used.
        has_same_bits: whether blocks and prompts gave the same bits.
    """

    declined: Lane | None
    largest_tv: float
    has_same_bits: bool

    @property
    def may_draft(self) -> bool:
        """Whether blocks of several rows may be used."""
        return self.declined != "block"

    def row_shape(self, asked: str) -> str:
        """Return the row shape that is used where this one is asked for."""
        if self.declined == "block":
            return "fast"
        return "stable" if self.declined == "plain" else asked

    def describe(self) -> dict[str, str | float | bool]:
        """Return it for /health."""
        return {
            "declined": self.declined or "none",
            "largest_total_variation": self.largest_tv,
            "same_bits": self.has_same_bits,
        }


def may_draft(check: SelfCheck | None) -> bool:
    """Return whether blocks of several rows may be used; they may where nothing was checked."""
    return check is None or check.may_draft


def row_shape_in_use(check: SelfCheck | None, asked: str) -> str:
    """Return the row shape that is used where this one is asked for."""
    return asked if check is None else check.row_shape(asked)


def demotion_of(check: SelfCheck | None, config: EngineConfig, request: Request) -> Demotion | None:
    """Return why nothing will be drafted for a request that may have drafts."""
    asked = request.num_speculative_tokens
    most = config.num_speculative_tokens if asked is None else asked
    return "self_check" if not may_draft(check) and most > 0 and config.drafter != "none" else None


def check_lanes(
    backend: Backend, num_block_rows: int, row_shape: str, set_row_shape: Callable[[str], None]
) -> SelfCheck:
    """Read one text in every way, decline the lane that is wrong and say so in the log.

    Mutates the backend's row shape and prompt chunks where a lane is declined.

    Args:
        backend: nothing is cached in it, before and after.
        num_block_rows: rows of the longest verify step.
        row_shape: the one in force.
        set_row_shape: the backend's own.

    Raises:
        BackendError: no two lanes agree.
    """
    block_len = min(max(num_block_rows, 2), _MAX_BLOCK_LEN)
    text = _text(backend, max(_TEXT_LEN, block_len + 4))
    set_row_shape("fast")
    rows: dict[Lane, FloatArray | None] = {"plain": _read(backend, text, 1, block_len)}
    set_row_shape(row_shape)
    rows["prompt"] = _read(backend, text, len(text), block_len)
    rows["block"] = _read(backend, text, block_len, block_len)  # last: its shape is the next one's
    check = _judge(rows, row_shape)
    set_row_shape(check.row_shape(row_shape))
    if check.declined == "prompt":
        backend.prefill_chunk_len = block_len
    _tell(check, row_shape)
    return check


def _text(backend: Backend, length: int) -> list[int]:
    """Return ids from all over the vocabulary."""
    length = min(length, backend.context_len, backend.capacity_tokens)
    return [(7 + 9973 * index) % backend.vocab_size for index in range(length)]


def _read(backend: Backend, text: list[int], piece_len: int, num_rows: int) -> FloatArray | None:
    """Return the last rows of a text read in pieces; None where a forward fails.

    A piece asks for all its rows, as a block of drafts does, but for the whole text at once.
    """
    is_whole = piece_len == len(text)
    handle = backend.open()
    rows: list[FloatArray] = []
    try:
        for begin in range(0, len(text), piece_len):
            piece = text[begin : begin + piece_len]
            if len(piece) > 1 and not is_whole:
                backend.forward([SequenceInput(handle, piece[::-1], len(piece))])
                backend.truncate(handle, begin)
            output = backend.forward(
                [SequenceInput(handle, piece, num_rows if is_whole else len(piece))]
            )
            rows.extend(np.array(output.logits, dtype=np.float64))
    except BackendError:
        return None
    finally:
        backend.close(handle)
    return np.stack(rows[-num_rows:])


def _judge(rows: dict[Lane, FloatArray | None], row_shape: str) -> SelfCheck:
    """Return which lane is outvoted, if one is.

    Raises:
        BackendError: no two agree.
    """
    pairs: dict[Lane, tuple[Lane, Lane]] = {
        "plain": ("block", "prompt"),
        "block": ("plain", "prompt"),
        "prompt": ("plain", "block"),
    }
    apart = {odd: _distance(rows[one], rows[other]) for odd, (one, other) in pairs.items()}
    block, prompt = rows["block"], rows["prompt"]
    has_same_bits = block is not None and prompt is not None and np.array_equal(block, prompt)
    if max(apart.values()) <= MAX_TV:
        used = apart["plain"] if row_shape == "stable" else max(apart.values())
        return SelfCheck(None, used, has_same_bits)
    odd = min(apart, key=apart.__getitem__)
    if apart[odd] > MAX_TV:
        raise BackendError(
            "the self-check failed: forwards of one, a few and many rows of the same text lie "
            f"{apart[odd]:.2f} and more apart in total variation, so none of them can be trusted; "
            "try another precision (--weights f32, --kv-cache 16bit), and check the model file's "
            "checksum"
        )
    return SelfCheck(odd, apart[odd], has_same_bits)


def _distance(one: FloatArray | None, other: FloatArray | None) -> float:
    """Return the largest total variation between rows; 1 where there are none."""
    if one is None or other is None:
        return 1.0
    apart = 0.5 * np.abs(softmax(one) - softmax(other)).sum(axis=-1).max()
    return float(apart) if np.isfinite(apart) else 1.0


def _tell(check: SelfCheck, row_shape: str) -> None:
    if check.declined is not None:
        logger.warning(
            "self-check: forwards of %s disagree with all others, so that %s; look for an update "
            "of the runtime, or try another precision (--weights, --kv-cache)",
            *_WORDS[check.declined],
        )
    elif row_shape == "stable" and not check.has_same_bits:
        logger.warning(
            "self-check: row shape stable does not give equal bits on this machine (rows lie up "
            "to %.1e apart in total variation): greedy answers may depend on drafts and company",
            check.largest_tv,
        )
