"""The command line in this process, without a model."""

import pytest
from tests.support.command_line import CommandLine


@pytest.fixture
def leeway(tmp_path, monkeypatch, capsys):
    return CommandLine(tmp_path, monkeypatch, capsys)
