"""Each behaviour of the serving contract has tests that bear its number, and a line in the docs."""

import re
from pathlib import Path

import pytest
from tests.support.serving_contract import BEHAVIOURS, ROOT, page
from tests.support.serving_contract import tests_of as files_of

PAGE = ROOT / "docs" / "serving.md"
FOUND = files_of()


@pytest.mark.parametrize("number", range(1, 26))
def test_each_behaviour_has_a_named_test(number):
    name = f"t{number:02}"
    assert sum(FOUND.get(name, {}).values()) > 0
    title, words = BEHAVIOURS[name]
    assert title and words.endswith(".")


def test_no_test_bears_a_number_that_means_nothing():
    assert set(FOUND) == set(BEHAVIOURS)


def test_those_of_real_text_have_tests_on_the_small_model():
    real = {
        name
        for name, files in FOUND.items()
        if any(one.startswith("tests/model/") or "test_real_model" in one for one in files)
    }
    assert {"t01", "t03", "t05", "t09", "t12", "t13", "t14", "t17", "t18", "t23", "t24"} <= real


def test_names_are_read_as_they_are_written(tmp_path):
    source = "def test_t01_t22_a():\n    pass\n\nclass A:\n  def test_t09_b(self):\n        pass\n"
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "test_x.py").write_text(source + "\ndef test_t1_c():\n    pass\n")
    place = {"tests/test_x.py": 1}
    assert files_of(folder) == {"t01": place, "t22": place, "t09": place}


def test_the_page_is_as_the_tests_are():
    written = PAGE.read_text(encoding="utf-8")
    assert written == page(), "run: python -m tests.support.serving_contract > docs/serving.md"
    for link in re.findall(r"\]\(([^)]+)\)", written):
        assert (PAGE.parent / Path(link)).is_file(), link
