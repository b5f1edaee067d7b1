"""How likely a text is under a model behind an OpenAI-style server, token by token.

In: prompts and completions as text, and a URL whose `/completions` echoes a prompt with its log
probabilities (Leeway's own server, vLLM). Out: log probabilities of the completion's tokens, by the
server's tokenizer. Only p of each token comes over HTTP, not its row: for entropies and the
martingale test the target has to run in this process.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leeway.bench.http_stream import TIMEOUT_S, post_json
from leeway.bench.intervals import Estimate
from leeway.core.errors import BackendError, ConfigError
from leeway.quality.summary import mean_estimate


@dataclass(frozen=True, slots=True)
class Text:
    """A completion, what stands before it, and whose it is."""

    prompt: str
    completion: str
    arm: str


@dataclass(frozen=True, slots=True)
class Likelihood:
    """Log probabilities of an arm's completions; nats.

    Attributes:
        mean: over tokens; its interval over texts.
        num_impossible: tokens of probability 0, left out of the mean.
    """

    arm: str
    num_texts: int
    num_tokens: int
    num_impossible: int
    mean: Estimate | None

    @property
    def perplexity(self) -> float | None:
        """The exponential of the negative mean; None without tokens."""
        return None if self.mean is None else math.exp(-self.mean.value)


def read_texts(path: Path) -> list[Text]:
    """Return the lines of a JSONL file with `prompt` and `completion`, and perhaps `arm`.

    Raises:
        ConfigError: the file cannot be read or a line lacks one of them.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as reason:
        raise ConfigError(f"{str(path)!r} cannot be read: {reason}") from None
    found = [_read(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise ConfigError(f"{str(path)!r} holds no text")
    return found


def score_text(url: str, model: str | None, text: Text) -> list[float]:
    """Return the log probability of each token that begins within the completion.

    Args:
        url: of an API, ending in a path such as /v1.
        model: name to ask for, if the server wants one.
        text: a completion behind its prompt.

    Raises:
        BackendError: the server fails, refuses, or gives no log probabilities of a prompt.
    """
    body: dict[str, Any] = {} if model is None else {"model": model}
    body |= {
        "prompt": text.prompt + text.completion,
        "echo": True,
        "logprobs": 1,
        "max_tokens": 0,
        "temperature": 1.0,
    }
    try:
        answer = post_json(f"{url}/completions", json.dumps(body).encode(), TIMEOUT_S)
        columns = answer["choices"][0]["logprobs"]
        offsets, logs = columns["text_offset"], columns["token_logprobs"]
        pairs = list(zip(offsets, logs, strict=True))
        start = len(text.prompt)
        return [-math.inf if log is None else float(log) for at, log in pairs if at >= start]
    except OSError as reason:
        raise BackendError(f"{url}/completions gave no log probabilities: {reason}") from None
    except (KeyError, IndexError, TypeError, ValueError):
        raise BackendError(
            f"{url}/completions gave no log probabilities of a prompt; it has to know `echo` with "
            "`logprobs` and `max_tokens` 0, as Leeway's and vLLM's servers do"
        ) from None


def sum_up(texts: Sequence[Text], logs: Sequence[Sequence[float]]) -> list[Likelihood]:
    """Return the likelihoods by arm, in the order in which arms appear.

    Args:
        texts: as scored.
        logs: log probabilities, one list a text.
    """
    by_arm: dict[str, list[Sequence[float]]] = {}
    for text, one in zip(texts, logs, strict=True):
        by_arm.setdefault(text.arm, []).append(one)
    return [_sum_up(arm, own) for arm, own in by_arm.items()]


def _sum_up(arm: str, logs: Sequence[Sequence[float]]) -> Likelihood:
    possible = [[value for value in one if value > -math.inf] for one in logs]
    num_tokens = sum(len(one) for one in logs)
    num_possible = sum(len(one) for one in possible)
    return Likelihood(
        arm,
        len(logs),
        num_tokens,
        num_tokens - num_possible,
        mean_estimate([math.fsum(one) for one in possible], [float(len(one)) for one in possible]),
    )


def _read(path: Path, number: int, line: str) -> Text:
    try:
        value = json.loads(line)
    except json.JSONDecodeError:
        value = None
    if isinstance(value, Mapping):
        prompt, completion = value.get("prompt"), value.get("completion")
        if isinstance(prompt, str) and prompt and isinstance(completion, str):
            return Text(prompt, completion, str(value.get("arm", path.stem)))
    raise ConfigError(
        f'{path}, line {number}: a line is {{"prompt": TEXT, "completion": TEXT}}, as '
        "`leeway quality run --save-completions` writes them"
    )
