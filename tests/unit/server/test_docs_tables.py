"""The tables of docs/http.md hold what the code has, no more and no less, with its defaults."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from leeway.core import errors
from leeway.server.app import _routes
from leeway.server.errors import _CODES
from leeway.server.metrics import PREFIX, ServerMetrics
from leeway.server.schema import (
    ChatFields,
    CompletionFields,
    DetokenizeFields,
    MessagesFields,
    MessagesPrompt,
    ResponseFields,
    SamplingFields,
    TokenizeFields,
)

PAGE = (Path(__file__).parents[3] / "docs" / "http.md").read_text(encoding="utf-8")
SHARED = "**Honoured on every route that answers**"
OPENAI = "**Chat and completions** also honour"
NOT_OVER_HTTP = {"config_error", "model_error", "model_unavailable", "sandbox_error"}


def table(head):
    """Return the rows of the first table behind a line."""
    lines = iter(PAGE.split(f"{head}\n", 1)[1].splitlines())
    rows = []
    for line in lines:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line[1:-1].split("|")])
        elif rows:
            break
    return rows[2:]


def ticked(text):
    return re.findall(r"`(\w+)(?:\{\w+\})?`", text)


def own(*kinds):
    """Return the fields of request structs beyond those that every route has."""
    names = {name for kind in kinds for name in kind.__struct_fields__}
    return names if kinds == (SamplingFields,) else names - set(SamplingFields.__struct_fields__)


@pytest.mark.parametrize(
    ("head", "kinds"),
    [(SHARED, (SamplingFields,)), (OPENAI, (ChatFields, CompletionFields))],
    ids=["shared", "openai"],
)
def test_the_tables_of_fields_are_the_codes(head, kinds):
    rows = table(head)
    listed = [name for names, *_ in rows for name in ticked(names)]
    assert len(listed) == len(set(listed))
    assert set(listed) <= own(*kinds)
    assert own(*kinds) <= {name for row in rows for cell in row for name in ticked(cell)}


def test_a_field_of_one_route_says_so():
    chat, completions = own(ChatFields), own(CompletionFields)
    for names, _, note in table(OPENAI):
        listed = set(ticked(names))
        assert note.startswith("chat.") == (listed <= chat - completions), names
        assert note.startswith("completions.") == (listed <= completions - chat), names


@pytest.mark.parametrize(
    ("head", "kinds"),
    [(SHARED, (SamplingFields,)), (OPENAI, (ChatFields, CompletionFields))],
    ids=["shared", "openai"],
)
def test_defaults_are_the_codes(head, kinds):
    """A number or truth value is the struct's own; a word stands where the struct has none."""
    fields = {field.name: field for kind in kinds for field in msgspec.structs.fields(kind)}
    checked = 0
    for names, defaults, _ in table(head):
        listed, said = ticked(names), defaults.split(", ")
        for name, word in zip(listed, said * len(listed) if len(said) == 1 else said, strict=True):
            try:
                value = json.loads(word)
            except json.JSONDecodeError:
                assert not default_of(fields[name]), name
            else:
                assert default_of(fields[name]) == value, name
                checked += 1
    assert checked >= 3


def default_of(field):
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return None if field.default is msgspec.NODEFAULT else field.default


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        ("**Responses** take", ResponseFields),
        ("**Messages** take", MessagesFields),
        ("**Messages** take", MessagesPrompt),
        ("**`/tokenize`** takes", TokenizeFields),
        ("**`/detokenize`** takes", DetokenizeFields),
    ],
    ids=["responses", "messages", "count_tokens", "tokenize", "detokenize"],
)
def test_each_route_names_its_own_fields_where_it_is_described(head, kind):
    paragraph = PAGE.split(head, 1)[1].split("\n\n", 1)[0]
    assert own(kind) <= set(ticked(paragraph.split("Refused by name", 1)[0]))


def test_the_routes_are_the_codes():
    served = {route.path.replace(":path", "").replace("model_id", "id") for route in _routes()}
    assert set(re.findall(r"`(?:GET|POST) (\S+)`", PAGE)) == served


def test_the_metrics_are_the_codes():
    registry = ServerMetrics(SimpleNamespace(state="loading")).registry
    exposed = {
        family.name.removeprefix(PREFIX) + ("_total" if family.type == "counter" else "")
        for family in registry.collect()
    }
    listed = [name for names, _ in table("## `GET /metrics`") for name in ticked(names)]
    assert len(listed) == len(set(listed))
    assert set(listed) == exposed


def test_statuses_and_codes_are_the_codes():
    raised = {
        (kind.http_status, kind.code)
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.LeewayError)
    }
    answered = {(500, "internal_error"), *raised, *_CODES.items()}
    listed = {
        (int(status), code) for status, codes, _ in table("## Errors") for code in ticked(codes)
    }
    assert listed == {pair for pair in answered if pair[1] not in NOT_OVER_HTTP}
