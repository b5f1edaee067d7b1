"""docs/compatibility.md: every tick has its test, and the tables have what the code has."""

import re
from pathlib import Path

import pytest
from tests.support import loaded_engine, serving_cases

from leeway.acceptance.registry import law_infos
from leeway.core.config_settings import KV_CACHES, WEIGHTS
from leeway.drafters.registry import DRAFTERS
from leeway.server.schema import ChatFields, CompletionFields, MessagesFields, ResponseFields

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
RECIPES = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
KINDS = {
    "/v1/chat/completions": ChatFields,
    "/v1/completions": CompletionFields,
    "/v1/responses": ResponseFields,
    "/v1/messages": MessagesFields,
}
CALLS = {
    "/v1/chat/completions": ".chat.completions.",
    "/v1/completions": "client.completions.",
    "/v1/responses": ".responses.",
    "/v1/messages": ".messages.",
}
TICK = re.compile(r"\[✓\]\(\.\./([\w/]+\.py)\)")
QUOTED = re.compile(r"`([^`]+)`")
BACKEND = ROOT / "tests" / "unit" / "backends" / "openvino" / "test_backend.py"


def table(first):
    """Return the columns and rows of the table whose head begins so; cells are trimmed."""
    head, _, *lines = PAGE[PAGE.index(f"| {first} |") :].strip().split("\n\n", 1)[0].splitlines()
    return cells(head), [cells(line) for line in lines]


def cells(line):
    return [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]


def ticked(cell):
    """Return the text of the test that a tick is linked to; None of a blank cell."""
    if not cell:
        return None
    return (ROOT / TICK.fullmatch(cell)[1]).read_text(encoding="utf-8")


FEATURES = table("feature")
LAWS = table("laws")
DRAFTED = table("been through")
PRECISIONS = table("KV cache")
CLIENTS = table("client")


@pytest.mark.parametrize("row", FEATURES[1], ids=lambda row: row[0])
def test_a_route_has_a_tick_where_it_has_the_fields_and_a_test_asks_it(row):
    _, fields, *ticks = row
    routes = [head.strip("`") for head in FEATURES[0][2:]]
    assert routes == list(KINDS)
    needed = [QUOTED.findall(part) for part in fields.split(",") if part]
    for route, cell in zip(routes, ticks, strict=True):
        text = ticked(cell)
        if needed:
            known = set(KINDS[route].__struct_fields__)
            assert all(known & set(names) for names in needed) == (text is not None), route
        if text is not None:
            assert f'"{route}"' in text or CALLS[route] in text, route


def test_every_law_and_drafter_is_in_the_table_once():
    heads, rows = LAWS
    assert {head.strip("`") for head in heads[1:]} == set(DRAFTERS) and len(heads) == 6
    named = [name for row in rows for name in QUOTED.findall(row[0])]
    assert sorted(named) == sorted(info.name for info in law_infos())


@pytest.mark.parametrize("row", LAWS[1], ids=lambda row: row[0])
def test_laws_have_a_tick_with_the_drafters_that_the_suite_runs_them_with(row):
    lists = {
        "tests.support.serving_cases import": {
            (law.law, drafter) for law, drafter in serving_cases.SERVED
        },
        "tests.support.loaded_engine import": {
            (law.law, drafter) for law in loaded_engine.LAWS for drafter in loaded_engine.DRAFTERS
        },
    }
    for head, cell in zip(LAWS[0][1:], row[1:], strict=True):
        pairs = {(name, head.strip("`")) for name in QUOTED.findall(row[0])}
        text = ticked(cell)
        if text is None:
            assert not pairs & lists["tests.support.serving_cases import"]
        else:
            assert any(line in text and pairs <= run for line, run in lists.items())


@pytest.mark.parametrize("row", DRAFTED[1], ids=lambda row: row[0])
def test_what_a_drafter_has_been_through_names_it_or_all(row):
    assert [head.strip("`") for head in DRAFTED[0][1:]] == [head.strip("`") for head in LAWS[0][1:]]
    for head, cell in zip(DRAFTED[0][1:], row[1:], strict=True):
        text = ticked(cell)
        if text is not None:
            name = head.strip("`")
            named = rf"\b(DRAFTERS|SERVED|{name}=|{DRAFTERS[name].__name__})|\"{name}\""
            assert re.search(named, text), name


@pytest.mark.parametrize("row", PRECISIONS[1], ids=lambda row: f"{row[1]}, {row[0]}")
def test_precisions_have_a_tick_where_the_test_names_them(row):
    heads = [head.strip("`") for head in PRECISIONS[0][2:]]
    assert heads == list(WEIGHTS)
    kv_cache = row[0].strip("`")
    assert kv_cache in KV_CACHES
    paired = next(text for text in map(ticked, row[2:]) if text is not None)
    if "openvino.test_backend import" in paired:
        paired += BACKEND.read_text(encoding="utf-8")
    for weights, cell in zip(heads, row[2:], strict=True):
        text = ticked(cell)
        if '("int8", "16bit"' in paired:
            assert (f'("{weights}", "{kv_cache}"' in paired) == (text is not None), weights
        else:  # each with each; a default need not be named
            assert text is not None
            assert weights == WEIGHTS[0] or f'"{weights}"' in text
            assert kv_cache == KV_CACHES[0] or f'"{kv_cache}"' in text


def test_clients_are_those_with_recipes_and_both_pages_say_who_was_tried():
    heads, rows = CLIENTS
    assert len(heads) == 4
    recipes = dict(re.findall(r"^### (.+)\n\n(.+)$", RECIPES, re.MULTILINE))
    assert [row[0] for row in rows] == list(recipes)
    for name, _, in_suite, version in rows:
        said = recipes[name]
        assert bool(in_suite) == said.startswith("The suite"), name
        assert bool(version) == said.startswith("Tried with"), name
        assert version in said
        assert bool(in_suite or version) != said.startswith("From its documentation, not tried")


def test_no_tick_stands_outside_of_the_tables_or_without_its_file():
    links = TICK.findall(PAGE)
    assert len(links) == PAGE.count("✓") > 150
    assert all((ROOT / path).is_file() for path in links)
