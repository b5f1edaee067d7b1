"""A vocabulary of single bytes whose tables spell characters of several bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from leeway.backends.tabular import Table
from leeway.core.types import TokenizerData
from leeway.engine.engine import Engine
from leeway.text.chat_template import ChatTemplate
from leeway.text.tokenizer import Tokenizer as OurTokenizer
from leeway.text.tokenizer import _byte_letters
from tests.support.tabular_engine import CHAT_TEMPLATE

CHARACTERS = ("a", "é", "🙂")
BYTES = tuple(byte for character in CHARACTERS for byte in character.encode())
_STARTS = tuple(BYTES.index(character.encode()[0]) for character in CHARACTERS)


def spelling_table(seed: int) -> Table:
    """Return a table of order 1 under which only whole characters can be spelt."""
    generator = np.random.default_rng(seed)
    ends = {BYTES.index(character.encode()[-1]) for character in CHARACTERS}
    table: Table = {(): _starts(generator)}
    for token in range(len(BYTES)):
        row = _starts(generator) if token in ends else np.eye(len(BYTES))[token + 1]
        table[(token,)] = row
    return table


def spell(engine: Engine) -> Engine:
    """Give an engine over such a table the bytes of `CHARACTERS` as tokens; return it."""
    letters = {byte: letter for letter, byte in _byte_letters().items()}
    vocab = {letters[byte]: token for token, byte in enumerate(BYTES)}
    raw = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    raw.decoder = decoders.ByteLevel()
    tokenizer = OurTokenizer(TokenizerData(raw.to_str(), CHAT_TEMPLATE, None, ()))
    template = ChatTemplate(CHAT_TEMPLATE, tokenizer)
    engine.parts = replace(engine.parts, tokenizer=tokenizer, chat_template=template)
    return engine


def _starts(generator: np.random.Generator) -> np.ndarray:
    row = np.zeros(len(BYTES))
    row[list(_STARTS)] = generator.dirichlet(np.full(len(_STARTS), 2.0))
    return row
