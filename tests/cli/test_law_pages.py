"""docs/laws says what the laws say; its commands give its numbers, its pictures are to scale."""

import ast
import json
import re
import shlex
from itertools import product
from xml.etree import ElementTree

import numpy as np
import pytest
from tests.support.law_cases import build, random_pairs
from tests.support.law_facts import FIVE, THREE, accepted_in_block, subjects
from tests.support.law_pages import FOLDER, OVERVIEW, WORDS, pages

from leeway.acceptance.base import RowPair
from leeway.acceptance.explain import explain
from leeway.acceptance.presets import PRESETS
from leeway.acceptance.registry import build_law, law_infos
from leeway.acceptance.set_law import OFF_SETS
from leeway.core.types import Acceptance

NAMES = [info.name for info in law_infos()] + [preset.name for preset in PRESETS]
SUBJECTS = {subject.name: subject for subject in subjects()}
DIGITS = {"rel": 6e-4, "abs": 1e-9}  # of a number in four digits


def page(name):
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8")


def test_the_pages_are_current():
    made = pages()
    found = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}
    assert set(found) == set(made)
    stale = [name for name, content in made.items() if found[name] != content]
    assert stale == [], "run `python -m tests.support.law_pages`"


def test_every_law_and_preset_has_words_a_page_and_a_line():
    assert list(WORDS) == NAMES
    overview = (FOLDER / OVERVIEW).read_text(encoding="utf-8")
    for name in NAMES:
        assert f"\n| [{name}]({name}.md) |" in overview
        assert page(name).startswith(f"# {name}\n")


@pytest.mark.parametrize("name", NAMES)
def test_the_commands_give_the_numbers(leeway, name):
    parts = re.findall(
        r"```sh\nleeway (explain .*)\n```\n\n((?:\|.*\n)+)\nAccepted A = (.*);", page(name)
    )
    assert len(parts) == 2
    for command, table, rates in parts:
        report = json.loads(leeway(*shlex.split(command), "--json").out)
        rows = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
        titles = ("target", "draft", None, "accept", "recovered", "emitted")
        for column, title in enumerate(titles, start=1):
            said = [row[column] for row in rows]
            if title is None:
                assert [word == "yes" for word in said] == report["is_kept"]
            else:
                assert [float(word) for word in said] == pytest.approx(
                    report[f"{title}_probs"], **DIGITS
                )
        rate, variation, divergence = re.split("; TV = |; KL = ", rates)
        assert float(rate) == pytest.approx(report["acceptance_rate"], **DIGITS)
        assert float(variation) == pytest.approx(report["total_variation"], **DIGITS)
        assert (divergence == "infinite") is (report["kl_divergence"] is None)


@pytest.mark.parametrize("name", NAMES)
def test_three_ways_ask_for_the_same_law(leeway, name):
    [command] = re.findall(r"```sh\nleeway serve (.*)\n```", page(name))
    [request] = re.findall(r"```json\n(.*)\n```", page(name))
    [words] = re.findall(r"```python\nAcceptance\((.*)\)\n```", page(name))
    law, *options = ast.literal_eval(f"[{words}]")
    asked = {"law": law, **dict(*options)}
    assert json.loads(request) == {"speculative": asked}
    outcome = leeway("config", "show", "--json", *shlex.split(command))
    assert outcome.code == 0, outcome.err
    configured = json.loads(outcome.out)["acceptance"]
    assert configured["law"] == law
    own = SUBJECTS[name].law
    for acceptance in (Acceptance(law, dict(*options)), Acceptance(**configured)):
        assert build_law(acceptance) == own


@pytest.mark.parametrize("name", NAMES)
def test_bars_are_to_scale(name):
    root = ElementTree.fromstring((FOLDER / f"{name}.svg").read_text(encoding="utf-8"))
    assert f'alt="{root.attrib["aria-label"]}"' in page(name)
    bars = []
    for bar in root.iter("{http://www.w3.org/2000/svg}rect"):
        hint = bar.find("{http://www.w3.org/2000/svg}title")
        if hint is not None:
            row, token, _ = re.fullmatch(r"(\w+)(?: [pq])? of token (\d): (.*)", hint.text).groups()
            bars.append((row, int(token), float(bar.attrib["width"])))
    expected = []
    for target, draft in (THREE, FIVE):
        emitted = SUBJECTS[name].law.emitted_probs(_rows(target, draft))
        for token, probs in enumerate(zip(target, draft, emitted, strict=True)):
            rows = ("target", "draft", "emitted")
            expected += [(row, token, prob) for row, prob in zip(rows, probs, strict=True)]
    assert [bar[:2] for bar in bars] == [bar[:2] for bar in expected]
    widths, probs = np.array([bar[2] for bar in bars]), np.array([bar[2] for bar in expected])
    assert widths == pytest.approx(probs * widths.max() / probs.max(), abs=0.11)
    assert widths.max() > 200


def _rows(target, draft):
    return RowPair(np.array(target), np.array(draft))


def test_links_lead_somewhere():
    links = {
        (path.name, target)
        for path in FOLDER.glob("*.md")
        for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8"))
    }
    assert len(links) > len(NAMES)
    for name, link in links:
        file, _, anchor = link.partition("#")
        text = (FOLDER / (file or name)).read_text(encoding="utf-8")
        heads = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        anchors = {re.sub(r"[^\w\- ]", "", head).lower().replace(" ", "-") for head in heads}
        assert not anchor or anchor in anchors, f"{name}: {link}"


def facts(name, pair):
    return explain(SUBJECTS[name].law, *pair)


def test_what_the_words_claim_of_the_examples():
    assert facts("tokenv1", THREE)["total_variation"] > facts("tokenv1", THREE)["draft_tv"]
    for name in ("relaxed_top_k", "threshold", "sglang"):
        assert facts(name, THREE)["total_variation"] == pytest.approx(0, abs=1e-12)
    for name in ("opt", "diff"):
        assert facts(name, FIVE)["acceptance_rate"] == 1
    for name in ("medusa", "trtllm_relaxed"):
        assert facts(name, THREE)["emitted_probs"] == pytest.approx(THREE[1])
    for name, kept in {"tokenv2": 2, "tokenv3": 3, "relaxed_top_k": 2, "trtllm_relaxed": 4}.items():
        assert facts(name, FIVE)["is_kept"] == [token < kept for token in range(5)]
    lenient, clip = facts("lenient", FIVE), explain(build("clip", c1=2.0), *FIVE)
    for rate in ("acceptance_rate", "total_variation"):
        assert lenient[rate] == pytest.approx(clip[rate])
    assert clip["kl_divergence"] < lenient["kl_divergence"]


def test_blocks_accept_as_the_page_says():
    """Token by token A + A² + A³; as a block the sum of E[P_i], P_i = min(1, P_(i-1) p/q)."""
    token, block = (accepted_in_block(build(name)) for name in ("rejection", "block"))
    assert token == pytest.approx(0.7 + 0.7**2 + 0.7**3)
    ratios = np.array(THREE[0]) / np.array(THREE[1])
    expected = 0.0
    for path in product(range(3), repeat=3):
        weight, total = 1.0, 0.0
        for x in path:
            weight = min(1.0, weight * ratios[x])
            total += weight
        expected += total * np.prod([THREE[1][x] for x in path])
    assert block == pytest.approx(expected)
    assert block > token
    point_mass = (THREE[0], (0.0, 1.0, 0.0))
    same = [accepted_in_block(build(name), point_mass) for name in ("rejection", "block")]
    assert same == pytest.approx([0.3 + 0.3**2 + 0.3**3] * 2)


@pytest.mark.parametrize("name", ["typical", "tokenv1", "tokenv2", "tokenv3", "relaxed_top_k"])
def test_no_off_set_is_better_than_the_coin(name):
    laws = {off_set: _with_off_set(name, off_set) for off_set in OFF_SETS}
    for rows in random_pairs(200, seed=11):
        rates = {key: float(law.acceptance_rate(rows)) for key, law in laws.items()}
        losses = {key: float(law.total_variation(rows)) for key, law in laws.items()}
        assert max(rates.values()) <= rates["coin"] + 1e-12
        assert min(losses.values()) >= losses["coin"] - 1e-12


def _with_off_set(name, off_set):
    law = SUBJECTS[name].law
    return build_law(Acceptance(name, {**law.options, "off_set": off_set}))
