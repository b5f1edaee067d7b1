"""docs/cli.md says what the program says."""

import json
import re
from pathlib import Path

import pytest
from tests.support.cli_page import VERBS, page

from leeway.core.config_settings import SETTINGS

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def test_the_page_is_current(leeway, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    made = page()
    assert made == PAGE.read_text(encoding="utf-8"), (
        "run `python -m tests.support.cli_page > docs/cli.md`"
    )
    for verb in VERBS:
        assert f"## {' '.join(('leeway', *verb))}\n" in made
    for setting in SETTINGS.values():
        assert f"{setting.flag} " in made and setting.env in made


@pytest.mark.parametrize(
    ("words", "acceptance"),
    [
        ([], {"law": "typical", "options": {"delta": 0.3, "off_set": "coin"}}),
        (["--law", "block"], {"law": "block", "options": {}}),
        (["--typical-threshold", "0.5"], {"law": "typical", "options": {"delta": 0.5, "eps": 1.0}}),
        (["--cascade-threshold", "0.5"], {"law": "tokenv3", "options": {"alpha": 0.5}}),
        (
            ["--law-option", "delta=0.5"],
            {"law": "typical", "options": {"delta": 0.5, "off_set": "coin"}},
        ),
        (["--typical-threshold", "0"], {"law": "rejection", "options": {}}),
        (["--law", "none"], {"law": "rejection", "options": {}}),
    ],
)
def test_the_sample_file_does_what_the_page_says(leeway, words, acceptance):
    [sample] = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (leeway.folder / "leeway.toml").write_text(sample)
    outcome = leeway("config", "show", "--json", *words)
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["acceptance"] == acceptance
