"""docs/rooms has a page for every room, and what a page says is so: files, names, imports."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "leeway"
DOCS = ROOT / "docs"
PAGES = sorted((DOCS / "rooms").glob("*.md"))
ROOMS = {path.parent.name for path in PACKAGE.glob("*/__init__.py")} | {"llm"}
TABLE_ROW = re.compile(r"^\| `([\w.]+)` \| \[[^\]]+\]\(([^)]+)\) \| .+ \|$", re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
TICKED = re.compile(r"`([^`\n]+)`")
NAME = re.compile(r"[A-Z][A-Za-z_]+(?:\.\w+)?|[a-z]+_[a-z_]+|\w+\(\)")
OF_OTHERS = {"Literal", "VERBS"}  # Python's; of tests/support/cli_page.py


@cache
def defined_in(path: Path) -> frozenset[str]:
    """Public names of a file; methods and fields as Class.name."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        found |= bound([node])
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{name}" for name in bound(node.body)}
    return frozenset(found)


def bound(body: list[ast.stmt]) -> set[str]:
    found = set()
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return {name for name in found if not name.startswith("_")}


def allowed_imports(contracts: list[dict]) -> dict[str, set[str]]:
    """What each room may import by the contracts of the import linter."""
    allowed: dict[str, set[str]] = {}
    below: set[str] = set()
    layers, *others = contracts
    assert layers["type"] == "layers" and {one["type"] for one in others} == {"forbidden"}
    for layer in reversed(layers["layers"]):
        rooms = [name.strip().removeprefix("leeway.") for name in layer.split("|")]
        allowed |= {room: set(below) for room in rooms}
        below |= set(rooms)
    for contract in others:
        barred = {name.removeprefix("leeway.") for name in contract["forbidden_modules"]}
        for name in contract["source_modules"]:
            allowed[name.removeprefix("leeway.")] -= barred
    return allowed


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
ALLOWED = allowed_imports(PROJECT["tool"]["importlinter"]["contracts"])


@pytest.fixture(params=PAGES, ids=lambda page: page.stem)
def page(request):
    return request.param


def test_every_room_has_a_page_to_which_the_corridor_leads():
    assert {page.stem for page in PAGES} == ROOMS == set(ALLOWED)
    linked = LINK.findall((DOCS / "corridor.md").read_text(encoding="utf-8"))
    assert {f"rooms/{room}.md" for room in ROOMS} <= set(linked)


@pytest.mark.parametrize("part", ["**In:**", "**Out:**", "**Never:**", "**Tests:**", "**To "])
def test_every_page_has_the_same_parts(page, part):
    assert part in page.read_text(encoding="utf-8")


def test_each_named_thing_is_where_the_page_says(page):
    rows = TABLE_ROW.findall(page.read_text(encoding="utf-8"))
    assert len(rows) >= 5
    for name, link in rows:
        path = (page.parent / link).resolve()
        assert path.is_relative_to(PACKAGE / page.stem) or path == PACKAGE / f"{page.stem}.py"
        assert name in defined_in(path), f"{name} is not in {path}"


def test_every_file_that_a_page_names_exists(page):
    text = page.read_text(encoding="utf-8")
    for link in LINK.findall(text):
        assert (page.parent / link).exists(), link
    tests = re.findall(r"\btests/[\w/.]*\w", text)
    assert tests
    for path in tests:
        assert (ROOT / path).exists(), path


def test_every_name_that_a_page_mentions_exists(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    whole = frozenset().union(*(defined_in(path) for path in PACKAGE.rglob("*.py")))
    known = whole | {name.rpartition(".")[2] for name in whole} | OF_OTHERS
    for word in TICKED.findall(text):
        if NAME.fullmatch(word):
            assert word.removesuffix("()") in known, word


def test_what_a_room_may_import_is_what_the_linter_lets_it(page):
    text = page.read_text(encoding="utf-8").replace("\n", " ")
    [said] = re.findall(r"\*\*May import:\*\* (.*?)\.(?: |$)", text)
    assert set(TICKED.findall(said)) == ALLOWED[page.stem]
    assert bool(ALLOWED[page.stem]) == (said != "nothing of ours")
