"""docs/cli.md says what the program says."""

from pathlib import Path

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
