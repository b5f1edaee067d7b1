"""JSON over a vocabulary of its characters, under tables that would rather write anything else."""

import json
from dataclasses import replace

import numpy as np
import pytest
from tests.support.serving_cases import SERVED, case_label, serve
from tests.support.tabular_engine import CHAT_TEMPLATE, run_all, text
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from leeway.backends.tabular import random_table
from leeway.core.types import FinishReason, Grammar, Request, SamplingParams, TokenizerData
from leeway.text.chat_template import ChatTemplate
from leeway.text.tokenizer import Tokenizer as OurTokenizer
from leeway.text.tokenizer import _byte_letters

CHARACTERS = ' \n{}[]":,-0123456789abxyz'
END = len(CHARACTERS)
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "y z"]}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
GRAMMAR = Grammar("json_schema", json.dumps(SCHEMA), "response_format")
every_law = pytest.mark.parametrize(("law", "drafter"), SERVED, ids=case_label)


def json_tokenizer():
    """Return a tokenizer whose tokens are single characters; the last one ends an answer."""
    letters = {byte: letter for letter, byte in _byte_letters().items()}
    vocab = {letters[ord(one)]: token for token, one in enumerate(CHARACTERS)}
    raw = Tokenizer(models.BPE(vocab=vocab | {"<eos>": END}, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    raw.decoder = decoders.ByteLevel()
    raw.add_special_tokens([AddedToken("<eos>", special=True)])
    return OurTokenizer(TokenizerData(raw.to_str(), CHAT_TEMPLATE, None, (END,)))


def blank_table(seed):
    """Every row gives nearly everything to white space."""
    blanks = np.zeros(END + 1)
    blanks[:2] = 0.45, 0.55
    rows = random_table(END + 1, 1, seed=seed)
    return {context: 0.05 * row + 0.95 * blanks for context, row in rows.items()}


def make(law, drafter):
    engine = serve(
        law, drafter, blank_table(1), blank_table(2), context_len=400, capacity_tokens=4000
    )
    tokenizer = json_tokenizer()
    parts = replace(
        engine.parts, tokenizer=tokenizer, chat_template=ChatTemplate(CHAT_TEMPLATE, tokenizer)
    )
    return type(engine)(parts, engine.config)


@every_law
def test_t12_json_parses_and_ends_however_much_the_model_likes_white_space(law, drafter):
    prompt = json_tokenizer().encode('{"a": 12, "b": "x"}\n')
    asked = [
        Request(f"r{seed}", tuple(prompt), SamplingParams(max_tokens=300, seed=seed), None, None)
        for seed in range(2)
    ]
    found = run_all(make(law, drafter), *(replace(one, grammar=GRAMMAR) for one in asked))
    for deltas in found.values():
        assert deltas[-1].finish_reason is FinishReason.STOP
        answer = json.loads(text(deltas))
        assert isinstance(answer["a"], int) and answer["b"] in SCHEMA["properties"]["b"]["enum"]
        assert len(answer) == 2
