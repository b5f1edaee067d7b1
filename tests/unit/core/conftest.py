"""Configurations are resolved where nothing of this machine's own counts."""

import pytest


@pytest.fixture
def home(tmp_path):
    """An environment of one's own: no variables, no files."""
    return {"XDG_CONFIG_HOME": str(tmp_path / "xdg"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
