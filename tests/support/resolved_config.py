"""Configurations resolved from given layers, and what a refused one says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from leeway.core.config import Config, resolve
from leeway.core.errors import ConfigError


def resolved(
    home: Mapping[str, str],
    tmp_path: Path,
    flags: Mapping[str, object] | None = None,
    env: Mapping[str, str] | None = None,
    file: str | None = None,
    **options: Path,
) -> Config:
    """Return the configuration of flags, of variables beside `home`, and of a file's text."""
    if file is not None:
        (tmp_path / "leeway.toml").write_text(file)
    return resolve(flags, environ={**home, **(env or {})}, cwd=tmp_path, **options)


def refusal(home: Mapping[str, str], tmp_path: Path, **layers: object) -> str:
    """Return why such a configuration is refused."""
    with pytest.raises(ConfigError) as caught:
        resolved(home, tmp_path, **layers)
    return caught.value.message
