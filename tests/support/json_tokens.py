"""A vocabulary of single characters in which JSON can be written, and engines that have it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from leeway.backends.tabular import Table, random_table
from leeway.core.types import TokenizerData
from leeway.engine.engine import Engine
from leeway.text.chat_template import ChatTemplate
from leeway.text.tokenizer import Tokenizer as OurTokenizer
from leeway.text.tokenizer import _byte_letters
from tests.support.tabular_engine import CHAT_TEMPLATE

CHARACTERS = ' \n{}[]":,-0123456789abcdefghijklmnopqrstuvwxyz<>/_'
END = len(CHARACTERS)


def json_tokenizer(chat_template: str = CHAT_TEMPLATE) -> OurTokenizer:
    """Return a tokenizer whose tokens are single characters; the last one ends an answer."""
    letters = {byte: letter for letter, byte in _byte_letters().items()}
    vocab = {letters[ord(one)]: token for token, one in enumerate(CHARACTERS)}
    raw = Tokenizer(models.BPE(vocab=vocab | {"<eos>": END}, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    raw.decoder = decoders.ByteLevel()
    raw.add_special_tokens([AddedToken("<eos>", special=True)])
    return OurTokenizer(TokenizerData(raw.to_str(), chat_template, None, (END,)))


def blank_table(seed: int) -> Table:
    """Every row gives nearly everything to white space."""
    blanks = np.zeros(END + 1)
    blanks[:2] = 0.45, 0.55
    rows = random_table(END + 1, 1, seed=seed)
    return {context: 0.05 * row + 0.95 * blanks for context, row in rows.items()}


def write_json(engine: Engine, chat_template: str = CHAT_TEMPLATE) -> Engine:
    """Return the engine with this vocabulary for its tokens."""
    tokenizer = json_tokenizer(chat_template)
    template = ChatTemplate(chat_template, tokenizer)
    parts = replace(engine.parts, tokenizer=tokenizer, chat_template=template)
    return Engine(parts, engine.config)
