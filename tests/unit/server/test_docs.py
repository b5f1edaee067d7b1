"""docs/http.md names what the code has."""

import re
from pathlib import Path

import pytest

from leeway.core.receipt import Receipt, Tally
from leeway.server.errors import _CODES
from leeway.server.fields import IGNORED, UNSUPPORTED
from leeway.server.metrics import _COUNTERS, _LOADS, _MAXIMA
from leeway.server.schema import ChatFields, CompletionFields

PAGE = (Path(__file__).parents[3] / "docs" / "http.md").read_text(encoding="utf-8")
NAMED = set(re.findall(r"`([a-z0-9_]+)(?:\{[a-z]+\})?`", PAGE))
RECEIPT = Receipt("", {}, "", "", "", 1, 0, 0.0, Tally(), ()).speculative_metrics(detailed=True)


@pytest.mark.parametrize(
    "names",
    [
        {*ChatFields.__struct_fields__, *CompletionFields.__struct_fields__},
        set(UNSUPPORTED),
        IGNORED,
        {f"{name}_total" for name in _COUNTERS} | {*_MAXIMA, *_LOADS},
        set(_CODES.values()),
        set(RECEIPT) - {"prefill_s", "decode_s"},
    ],
    ids=["honoured", "unsupported", "ignored", "metrics", "codes", "receipt"],
)
def test_the_page_names_all(names):
    assert names - NAMED == set()


def test_lists_of_fields_are_exactly_the_codes():
    refused = re.search(r"\*\*Refused by name\*\*.*?`tools: \[\]`\): (.*?)\n", PAGE).group(1)
    ignored = re.search(r"\*\*Ignored\*\*.*?: (.*?)\n", PAGE).group(1)
    assert set(re.findall(r"`(\w+)`", refused)) == set(UNSUPPORTED)
    assert set(re.findall(r"`(\w+)`", ignored)) == IGNORED
