"""Fixtures that several suites share."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from leeway.core.config import default_cache_dir
from leeway.core.config_settings import DEFAULT_MODEL
from leeway.core.errors import FetchError
from leeway.models.catalogue import find_entry
from leeway.models.fetch import pull


@pytest.fixture(autouse=True)
def own_log_handlers():
    """Take back the log handlers that a command run in this process leaves on a captured stream."""
    names = ("leeway", "uvicorn.error", "uvicorn.access", "asyncio")
    loggers = [logging.getLogger(name) for name in names]
    before = [(list(logger.handlers), logger.level, logger.propagate) for logger in loggers]
    yield
    for logger, (handlers, level, propagate) in zip(loggers, before, strict=True):
        logger.handlers[:] = handlers
        logger.setLevel(level)
        logger.propagate = propagate


def cached_model(name: str) -> Path:
    """Return a catalogue model's verified file, or skip the test, saying how to get the file."""
    try:
        return pull(find_entry(name), default_cache_dir(), offline=True)
    except FetchError as error:
        pytest.skip(f"{name} is not in the cache; run `leeway models pull {name}` ({error})")


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """The real SmolLM2 135M GGUF file."""
    return cached_model(DEFAULT_MODEL)


@pytest.fixture(scope="session")
def qwen_coder_path() -> Path:
    """The real Qwen2.5 Coder 0.5B GGUF file."""
    return cached_model("qwen2.5-coder-0.5b-instruct")
