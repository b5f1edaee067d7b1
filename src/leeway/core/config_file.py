"""Changing a configuration file: some top-level values, and nothing else of it.

In: the file's text and new values. Out: the text with these keys set; comments, order, blank lines
and line ends stay. What was written is read back and compared before it replaces the file. Knows
TOML's statements only as far as needed to tell where one ends; `tomllib` decides.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from leeway.core.errors import ConfigError

NewValue = str | int | float
_HEADER = re.compile(r"\s*\[")
_ONE_LINE = re.compile(
    r"(?P<head>\s*(?P<key>[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')\s*=\s*)"
    r"(?P<value>\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\s#\"'\[{]+)(?P<tail>\s*(?:#.*)?)"
)


def save_settings(path: Path, values: Mapping[str, NewValue]) -> None:
    """Set top-level keys of a TOML file, made if it does not exist, in one step.

    Raises:
        ConfigError: the file is no TOML, cannot be edited without touching more than these keys,
            or cannot be written; it is then as it was.
    """
    target = path.resolve()
    try:
        old = target.read_bytes().decode("utf-8") if target.exists() else ""
        new = edit_toml(old, values)
        _replace(target, new)
    except (OSError, ValueError) as reason:
        wanted = ", ".join(f"{key} = {_written(value)}" for key, value in values.items())
        raise ConfigError(
            f"configuration file {path} cannot be changed ({reason}); set {wanted} by hand"
        ) from None


def edit_toml(text: str, values: Mapping[str, NewValue]) -> str:
    """Return the text with these top-level keys set; new keys stand behind the last one there.

    Raises:
        ValueError: the text is not TOML, or only a larger change would do.
    """
    wanted = {**tomllib.loads(text), **values}
    line_end = "\r\n" if "\r\n" in text else "\n"
    missing = dict(values)
    parts: list[str] = []
    last_key = 0
    statements = list(_top_level(text))
    for statement in statements:
        keys = list(tomllib.loads(statement))
        is_changed = bool(keys) and keys[0] in missing
        parts.append(
            _with_value(statement, keys[0], missing.pop(keys[0]), line_end)
            if is_changed
            else statement
        )
        if keys:
            last_key = len(parts)
    if missing and last_key and not parts[last_key - 1].endswith("\n"):
        parts[last_key - 1] += line_end
    added = [f"{key} = {_written(value)}{line_end}" for key, value in missing.items()]
    if not last_key and parts and added:
        added.append(line_end)
    rest = text[sum(len(statement) for statement in statements) :]
    edited = "".join([*parts[:last_key], *added, *parts[last_key:], rest])
    if tomllib.loads(edited) != wanted:
        raise ValueError("more than the keys to set would change")
    return edited


def _top_level(text: str) -> Iterator[str]:
    """Yield the statements before the first table, each with its line ends, comments as they are.

    A statement ends with the first line that makes it TOML.
    """
    lines = text.splitlines(keepends=True)
    start = 0
    while start < len(lines) and not _HEADER.match(lines[start]):
        end = start + 1
        while not _is_toml("".join(lines[start:end])):
            end += 1
        yield "".join(lines[start:end])
        start = end


def _is_toml(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _with_value(statement: str, key: str, value: NewValue, line_end: str) -> str:
    body = statement.rstrip("\r\n")
    found = _ONE_LINE.fullmatch(body)
    if found is None:
        return f"{key} = {_written(value)}{line_end}"
    return f"{found['head']}{_written(value)}{found['tail']}{statement[len(body) :]}"


def _written(value: NewValue) -> str:
    """Return the value in TOML; JSON's strings are TOML's."""
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _replace(path: Path, text: str) -> None:
    """Write beside the file and move into its place; its permissions stay."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode())
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask()
        Path(name).chmod(mode)
        Path(name).replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
