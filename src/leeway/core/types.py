"""Values that pass the doors between rooms: small, frozen, without behaviour of their own.

Only sequences, caches and queues are mutable, and they live in their own rooms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from leeway.core.errors import LeewayError
from leeway.core.limits import Limits
from leeway.core.receipt import LawOption, Receipt

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.integer[Any]]


class FinishReason(StrEnum):
    """Why a request ended."""

    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"
    ERROR = "error"


class Provenance(StrEnum):
    """Where an output token came from."""

    ACCEPTED = "accepted"
    RECOVERED = "recovered"
    BONUS = "bonus"


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The acceptance law asked for: a name that `leeway laws` lists, and its options."""

    law: str = "rejection"
    options: Mapping[str, LawOption] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the user asked for tokens to be drawn; checked by `sampling.params.check`.

    `temperature` 0 is greedy. `top_k` 0, `top_p` 1 and `min_p` 0 are off. `seed` None draws a
    fresh one, which the answer reports. `max_tokens` 0 only reads the prompt. Before `min_tokens`
    tokens no end token can be drawn and no stop string ends the answer. `logit_bias` maps token
    ids to additive logits.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None
    max_tokens: int = 256
    min_tokens: int = 0
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    logit_bias: Mapping[int, float] = field(default_factory=lambda: MappingProxyType({}))
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0


@dataclass(frozen=True, slots=True)
class Grammar:
    """The form that an answer must have.

    Attributes:
        kind: how `text` is to be read.
        text: a JSON schema, a regular expression, a grammar (Lark or GBNF), a JSON list of the
            answers to choose from; or, for `calls`, a JSON object: `frames` are what one call may
            be (`begin` and `end` around JSON of a `schema`), `between` stands between calls (null:
            there is one), and where there is a `trigger`, text may come before each call, which
            begins with it.
        param: the request's field that asked for it, which errors name.
        thought_close: the token behind which the form begins, where reasoning may come first.
        thought_open: the token with which reasoning begins; None where the prompt has begun it.
    """

    kind: Literal["json_schema", "regex", "grammar", "choice", "calls"]
    text: str
    param: str = "grammar"
    thought_close: int | None = None
    thought_open: int | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt to continue. `acceptance` None takes the engine's own law.

    `logprobs` and `prompt_logprobs` ask for the log probabilities of output and prompt tokens, each
    with so many of the likeliest tokens; None asks for none. The answer has the form of `grammar`,
    if there is one. `limits` None takes the engine's own.
    """

    request_id: str
    prompt_token_ids: tuple[int, ...]
    sampling: SamplingParams = SamplingParams()
    acceptance: Acceptance | None = None
    num_speculative_tokens: int | None = None
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    grammar: Grammar | None = None
    limits: Limits | None = None


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """One token under the target's raw row: before bias, penalties, temperature, truncation.

    Attributes:
        token_id: the token that stands in the text.
        logprob: nats; minus infinity where the row gives it nothing.
        top: the likeliest tokens of the row, (token id, log probability), likeliest first.
    """

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Rows:
    """Probability rows over named columns, possibly fewer than the vocabulary.

    Attributes:
        probs: [num_rows, num_columns], each row sums to 1.
        token_ids: [num_columns], ascending; None means that column j is token j. Tokens without
            a column have probability zero in every row.
        entropies: [num_rows], nats, where they were had for little; None means not computed.
    """

    probs: FloatArray
    token_ids: IntArray | None = None
    entropies: FloatArray | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """Drafted tokens of one sequence and the rows they were drawn from.

    `rows` None means point mass: each token was proposed with certainty (n-gram). `raw_probs`,
    [num_draft_tokens, vocab_size], are the draft model's rows before temperature and truncation,
    kept only for a law that reads raw rows.
    """

    token_ids: tuple[int, ...]
    rows: Rows | None = None
    raw_probs: FloatArray | None = None


@dataclass(frozen=True, slots=True)
class TokenizerData:
    """What a model file says about text; made by `models`, read by `text`.

    `tokenizer_json` is a serialised Hugging Face tokenizer.
    """

    tokenizer_json: str
    chat_template: str | None
    bos_token_id: int | None
    eos_token_ids: tuple[int, ...]
    add_bos: bool = False


@dataclass(frozen=True, slots=True)
class OutputDelta:
    """What one step adds to one request's answer, ready to stream.

    `text` may lag behind `token_ids` while a character or a stop string is undecided; the deltas
    of a request, joined, are its whole text. `provenance` has one entry a token, and `logprobs` too
    where they were asked for. The first delta has the `prompt_logprobs` (None for the first token,
    which nothing stands before). The last delta has a `finish_reason` and the `receipt`, and the
    `stop_match`: the stop string or the id of `stop_token_ids` that ended the answer, if one did.
    """

    request_id: str
    token_ids: tuple[int, ...]
    provenance: tuple[Provenance, ...]
    text: str
    finish_reason: FinishReason | None = None
    error: LeewayError | None = None
    receipt: Receipt | None = None
    stop_match: str | int | None = None
    logprobs: tuple[TokenLogprob, ...] = ()
    prompt_logprobs: tuple[TokenLogprob | None, ...] = ()
