"""One answer as it is decoded: printed while it grows, kept for what is said afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from leeway.cli.call import Screen
from leeway.core.types import FinishReason, OutputDelta, Provenance

if TYPE_CHECKING:
    from leeway.core.receipt import Receipt
    from leeway.text.tokenizer import Tokenizer

Show = Callable[[OutputDelta], None]


@dataclass(slots=True)
class Answer:
    """What has been decoded so far; `receipt` comes with the last delta."""

    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    provenance: list[Provenance] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    receipt: Receipt | None = None

    def take(self, delta: OutputDelta) -> None:
        """Add one delta."""
        self.text += delta.text
        self.token_ids.extend(delta.token_ids)
        self.provenance.extend(delta.provenance)
        self.finish_reason = delta.finish_reason or self.finish_reason
        self.receipt = delta.receipt or self.receipt

    def to_dict(self) -> dict[str, Any]:
        """Return the answer for `--json`."""
        return {
            "text": self.text,
            "token_ids": self.token_ids,
            "provenance": [item.value for item in self.provenance],
            "finish_reason": self.finish_reason and self.finish_reason.value,
            "receipt": self.receipt and self.receipt.to_dict(),
        }


def collect(
    deltas: Iterable[OutputDelta], show: Show | None = None, answer: Answer | None = None
) -> Answer:
    """Return the whole answer, shown delta by delta on the way; `answer` is filled as it grows."""
    answer = Answer() if answer is None else answer
    for delta in deltas:
        answer.take(delta)
        if show is not None:
            show(delta)
    return answer


def make_show(
    screen: Screen, tokenizer: Tokenizer, *, with_provenance: bool, with_legend: bool = True
) -> Show:
    """Return a function that prints a delta on stdout at once."""
    if with_provenance:
        from leeway.cli.provenance import print_legend, print_runs
        from leeway.text.provenance import ProvenanceText

        console, runs = screen.out(is_trimmed=False), ProvenanceText(tokenizer)
        if with_legend and not screen.is_quiet:
            print_legend(screen.log())
        return lambda delta: print_runs(console, runs.split(delta))
    return lambda delta: print(delta.text, end="", flush=True)
