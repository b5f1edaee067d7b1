"""JSON over a vocabulary of its characters, under tables that would rather write anything else."""

import json
from dataclasses import replace

import pytest
from tests.support.json_tokens import blank_table, json_tokenizer, write_json
from tests.support.serving_cases import SERVED, case_label, serve
from tests.support.tabular_engine import run_all, text

from leeway.core.types import FinishReason, Grammar, Request, SamplingParams

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "y z"]}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
GRAMMAR = Grammar("json_schema", json.dumps(SCHEMA), "response_format")
every_law = pytest.mark.parametrize(("law", "drafter"), SERVED, ids=case_label)


def make(law, drafter):
    return write_json(
        serve(law, drafter, blank_table(1), blank_table(2), context_len=400, capacity_tokens=4000)
    )


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
