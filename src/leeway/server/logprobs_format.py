"""Log probabilities as OpenAI's clients read them, for chat and for completions.

Minus infinity, which JSON cannot write, becomes -9999.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from leeway.core.types import TokenLogprob
from leeway.server.service_protocol import ServedTokenizer

LEAST = -9999.0
_DECODER = codecs.getincrementaldecoder("utf-8")


def chat_logprobs(tokenizer: ServedTokenizer, entries: Iterable[TokenLogprob]) -> dict[str, Any]:
    """Return `logprobs` of a chat's choice."""
    content = []
    for entry in entries:
        top = [_chat_token(tokenizer, *one) for one in entry.top]
        own = _chat_token(tokenizer, entry.token_id, entry.logprob)
        content.append({**own, "top_logprobs": top})
    return {"content": content, "refusal": None}


def token_name(tokenizer: ServedTokenizer, token_id: int) -> str:
    """Return a token's text; `bytes:` and their values where they are no whole characters.

    Special tokens, which an answer's text leaves out, are named as in the vocabulary.
    """
    raw = tokenizer.token_bytes(token_id)
    if not raw:
        return tokenizer.token_text(token_id) or ""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)


@dataclass(slots=True)
class CompletionLogprobs:
    """Builds `logprobs` of a completion's choice, piece by piece, with running text offsets.

    Attributes:
        tokenizer: names the tokens.
        offset: characters of the choice's text before the next token.
    """

    tokenizer: ServedTokenizer
    offset: int = 0
    _decoder: codecs.IncrementalDecoder = field(default_factory=lambda: _DECODER(errors="replace"))

    def add_prompt(
        self, token_ids: Sequence[int], entries: Sequence[TokenLogprob | None], text: str
    ) -> Columns:
        """Return the columns of an echoed prompt; the first entry is None.

        Special tokens take the room of their name where the text has it there.
        """
        columns, decoder = Columns(), _DECODER(errors="replace")
        for token_id, entry in zip(token_ids, entries, strict=True):
            columns.add(self.tokenizer, token_id, entry, self.offset)
            raw = self.tokenizer.token_bytes(token_id)
            shown = decoder.decode(raw) if raw else token_name(self.tokenizer, token_id)
            if self.offset == 0 and not text.startswith(shown):
                shown = shown.removeprefix(" ")
            if raw or text.startswith(shown, self.offset):
                self.offset += len(shown)
        self.offset = len(text)
        return columns

    def add(self, entries: Sequence[TokenLogprob]) -> Columns:
        """Return the columns of output tokens; special tokens take no room in the text."""
        columns = Columns()
        for entry in entries:
            columns.add(self.tokenizer, entry.token_id, entry, self.offset)
            self.offset += len(self._decoder.decode(self.tokenizer.token_bytes(entry.token_id)))
        return columns


@dataclass(slots=True)
class Columns:
    """`logprobs` of a completion: one entry a token in each list."""

    tokens: list[str] = field(default_factory=list)
    token_logprobs: list[float | None] = field(default_factory=list)
    top_logprobs: list[dict[str, float] | None] = field(default_factory=list)
    text_offset: list[int] = field(default_factory=list)

    def add(
        self, tokenizer: ServedTokenizer, token_id: int, entry: TokenLogprob | None, offset: int
    ) -> None:
        """Add a token; entry None is one that nothing stands before."""
        name = token_name(tokenizer, token_id)
        self.tokens.append(name)
        self.text_offset.append(offset)
        self.token_logprobs.append(None if entry is None else _finite(entry.logprob))
        self.top_logprobs.append(None if entry is None else _top(tokenizer, entry, name))

    def extend(self, other: Columns) -> None:
        """Add another's tokens."""
        self.tokens += other.tokens
        self.token_logprobs += other.token_logprobs
        self.top_logprobs += other.top_logprobs
        self.text_offset += other.text_offset


def _top(tokenizer: ServedTokenizer, entry: TokenLogprob, name: str) -> dict[str, float] | None:
    """Return the likeliest tokens and the token itself; None where none were asked for."""
    if not entry.top:
        return None
    top = {token_name(tokenizer, token_id): _finite(value) for token_id, value in entry.top}
    top.setdefault(name, _finite(entry.logprob))
    return top


def _chat_token(tokenizer: ServedTokenizer, token_id: int, logprob: float) -> dict[str, Any]:
    raw = tokenizer.token_bytes(token_id)
    text = raw.decode(errors="replace") if raw else tokenizer.token_text(token_id) or ""
    return {"token": text, "logprob": _finite(logprob), "bytes": list(raw) if raw else None}


def _finite(logprob: float) -> float:
    return max(logprob, LEAST)
