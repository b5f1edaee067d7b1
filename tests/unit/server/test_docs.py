"""docs/http.md names what the code has."""

import re
from pathlib import Path

import pytest

from leeway.core.receipt import Receipt, Tally
from leeway.server.app import _routes
from leeway.server.errors import _CODES, ROUTES
from leeway.server.fields import OPENAI
from leeway.server.messages import MESSAGES_RULES
from leeway.server.metrics import _COUNTERS, _LOADS, _MAXIMA
from leeway.server.responses import RESPONSES_RULES
from leeway.server.schema import (
    ChatFields,
    CompletionFields,
    DetokenizeFields,
    MessagesFields,
    ResponseFields,
    TokenizeFields,
)
from leeway.server.tokenize import TOKENIZE_RULES

PAGE = (Path(__file__).parents[3] / "docs" / "http.md").read_text(encoding="utf-8")
NAMED = set(re.findall(r"`([a-z0-9_]+)(?:\{[a-z]+\})?`", PAGE))
RECEIPT = Receipt("", {}, "", "", "", 1, 0, 0.0, Tally(), ()).speculative_metrics(detailed=True)
OWN = {
    "echo",
    "top_logprobs",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "add_generation_prompt",
    "continue_final_message",
}
KINDS = (
    ChatFields,
    CompletionFields,
    ResponseFields,
    MessagesFields,
    TokenizeFields,
    DetokenizeFields,
)


@pytest.mark.parametrize(
    "names",
    [
        {name for kind in KINDS for name in kind.__struct_fields__},
        {f"{name}_total" for name in (*_COUNTERS, "limited_requests")} | {*_MAXIMA, *_LOADS},
        set(_CODES.values()),
        set(RECEIPT) - {"prefill_s", "decode_s"},
    ],
    ids=["honoured", "metrics", "codes", "receipt"],
)
def test_the_page_names_all(names):
    assert names - NAMED == set()


@pytest.mark.parametrize(
    ("route", "rules", "own"),
    [
        ("**Refused by name there**", OPENAI, OWN),
        ("**Responses** take", RESPONSES_RULES, set()),
        ("**Messages** take", MESSAGES_RULES, set()),
        ("**`/tokenize`** takes", TOKENIZE_RULES, set()),
    ],
    ids=["openai", "responses", "messages", "tokenize"],
)
def test_lists_of_fields_are_exactly_the_codes(route, rules, own):
    section = PAGE.split(route, 1)[1].split("\n## ")[0]
    refused = re.split(r"asks for nothing[^:]*(?:: \[\]`\))?: ", section, maxsplit=1)[1]
    assert names_in(refused) == set(rules.unsupported) - own
    if rules.ignored:
        ignored = re.split(r"(?:Ignored: |cannot matter here: )", section, maxsplit=1)[1]
        assert names_in(ignored) == rules.ignored


def names_in(text):
    return set(re.findall(r"`(\w+)`", text.partition(".")[0]))


def test_the_page_lists_the_routes():
    served = {route.path.replace(":path", "").replace("model_id", "id") for route in _routes()}
    assert served <= set(re.findall(r"`(?:GET|POST) (\S+)`", PAGE))
    assert all(path in ROUTES for path in served)
