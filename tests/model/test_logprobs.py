"""Log probabilities on the real model: drafted, plain and teacher-forced reading agree."""

import math

import pytest
from tests.support.tabular_engine import run_all, text, token_ids

from leeway.core.config import EngineConfig
from leeway.core.types import Acceptance, Request, SamplingParams
from leeway.engine.load import load_engine

pytestmark = pytest.mark.model

PROMPT = "The cat sat on the mat. 🙂 The cat sat on the mat. 🙂 The cat sat on"


@pytest.fixture(scope="module")
def engine(smollm2_path):
    return load_engine(
        EngineConfig(model=str(smollm2_path), drafter="ngram", kv_memory_bytes=2**28)
    )


@pytest.mark.parametrize(
    ("law", "num_speculative_tokens"),
    [
        (Acceptance("rejection"), 0),
        (Acceptance("rejection"), None),
        (Acceptance("block"), None),
        (Acceptance("typical", {"delta": 0.3}), None),
    ],
    ids=["plain", "rejection", "block", "typical"],
)
def test_t09_an_answer_read_again_has_the_same_numbers(engine, law, num_speculative_tokens):
    prompt = tuple(engine.parts.tokenizer.encode(PROMPT))
    sampling = SamplingParams(
        max_tokens=32, seed=3, temperature=0.7, top_p=0.9, repetition_penalty=1.1, min_tokens=8
    )
    asked = Request("a", prompt, sampling, law, num_speculative_tokens, logprobs=3)
    deltas = run_all(engine, asked)["a"]
    entries = [entry for delta in deltas for entry in delta.logprobs]
    ids = token_ids(deltas)
    assert [entry.token_id for entry in entries] == list(ids) and 8 <= len(ids) <= 32
    forced = Request(
        "b", (*prompt, *ids), SamplingParams(max_tokens=0), logprobs=0, prompt_logprobs=3
    )
    (delta,) = run_all(engine, forced)["b"]
    again = delta.prompt_logprobs[len(prompt) :]
    for entry, other in zip(entries, again, strict=True):
        assert entry.token_id == other.token_id
        assert entry.logprob == pytest.approx(other.logprob, abs=1e-4)
        assert [one for one, _ in entry.top] == [one for one, _ in other.top]
        assert sum(math.exp(value) for _, value in entry.top) <= 1 + 1e-9
    assert "\ufffd" not in text(deltas)[:-1]
