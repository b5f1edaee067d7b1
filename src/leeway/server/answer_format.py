"""Answer format: what every API's answer is made of, whole or as a stream of events.

An answer has one output for each choice. Formats turn outputs and deltas into bytes; they decide
nothing about tokens.
"""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from leeway.core.receipt import Receipt
from leeway.core.types import FinishReason, OutputDelta, TokenLogprob

METRICS_VERSION = 1


@dataclass(slots=True)
class ChoiceOutput:
    """What one choice has come to so far.

    Attributes:
        prompt_len: tokens of its prompt.
        is_first_of_prompt: whether usage counts the prompt here; choices of one prompt share it.
        prompt_text: the prompt as echoed; None where it is not.
        prompt_logprobs, logprobs: entries of prompt and output, where asked for.
        token_ids: of the output so far, those that complete a stop string included.
        num_deltas: deltas taken so far.
    """

    prompt_len: int
    is_first_of_prompt: bool = True
    prompt_text: str | None = None
    texts: list[str] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    num_deltas: int = 0
    prompt_logprobs: list[TokenLogprob | None] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    stop_match: str | int | None = None
    receipt: Receipt | None = None

    @property
    def output_len(self) -> int:
        """Number of output tokens so far."""
        return len(self.token_ids)

    @property
    def text(self) -> str:
        """The answer's text so far, without the prompt."""
        return "".join(self.texts)

    def take(self, delta: OutputDelta) -> None:
        """Add a delta."""
        self.texts.append(delta.text)
        self.token_ids.extend(delta.token_ids)
        self.num_deltas += 1
        self.prompt_logprobs.extend(delta.prompt_logprobs)
        self.logprobs.extend(delta.logprobs)
        self.finish_reason = delta.finish_reason
        self.stop_match = delta.stop_match
        self.receipt = delta.receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerFormat(ABC):
    """Builds the bytes of one answer from its outputs, which have taken each delta before.

    Attributes:
        model: name to answer with.
        outputs: one for each choice.
        is_detailed: whether metrics list every step.
    """

    model: str
    outputs: Sequence[ChoiceOutput]
    is_detailed: bool = False
    answer_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    created: int = field(default_factory=lambda: int(time.time()))

    @abstractmethod
    def whole(self) -> bytes:
        """Return the body of a whole answer."""

    @abstractmethod
    def opening(self) -> bytes:
        """Return the events before the first delta."""

    @abstractmethod
    def delta(self, index: int, delta: OutputDelta) -> bytes:
        """Return the events of one delta of one choice; none where it shows nothing."""

    @abstractmethod
    def closing(self) -> bytes:
        """Return the events behind the last delta."""

    @abstractmethod
    def error(self, error: Exception) -> bytes:
        """Return the event of a failure in the middle."""

    def num_tokens(self) -> tuple[int, int]:
        """Return prompt tokens, each prompt counted once, and output tokens."""
        prompts = [output for output in self.outputs if output.is_first_of_prompt]
        return (
            sum(output.prompt_len for output in prompts),
            sum(output.output_len for output in self.outputs),
        )

    def num_cached_tokens(self) -> int:
        """Return how many of the prompt tokens were in the cache already."""
        prompts = [output for output in self.outputs if output.is_first_of_prompt]
        receipts = [one.receipt for one in prompts if one.receipt is not None]
        return sum(receipt.tally.num_cached_tokens for receipt in receipts)

    def metrics(self) -> dict[str, Any]:
        """Return the metrics; null under the contract's name when they are not of one answer."""
        each = [
            None
            if output.receipt is None
            else output.receipt.speculative_metrics(detailed=self.is_detailed)
            for output in self.outputs
        ]
        metrics: dict[str, Any] = {"version": METRICS_VERSION}
        if len(each) == 1:
            return metrics | {"speculative_decoding": each[0]}
        return metrics | {"speculative_decoding": None, "speculative_decoding_by_choice": each}
