"""The command line over a tiny model file: random weights, real graph, real tokenizer."""

import pytest
from tests.support.command_line import CommandLine
from tests.support.tiny_models import tiny_spec, write_tiny_gguf


@pytest.fixture
def leeway(tmp_path, monkeypatch, capsys):
    return CommandLine(tmp_path, monkeypatch, capsys)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """The path of a model that loads in a moment."""
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    write_tiny_gguf(path)
    return str(path)


@pytest.fixture(scope="session")
def deep(tmp_path_factory):
    """The path of a tiny model with a long context."""
    path = tmp_path_factory.mktemp("model") / "deep.gguf"
    write_tiny_gguf(path, spec=tiny_spec(context_len=8192))
    return str(path)


@pytest.fixture
def on_tiny(leeway, tiny, monkeypatch):
    """The command line with the tiny model as the one configured."""
    monkeypatch.setenv("LEEWAY_MODEL", tiny)
    monkeypatch.setenv("LEEWAY_KV_MEMORY", "8MiB")
    return leeway
