"""Where a suite's data comes from: a folder, an installed package, the cache, the authors' page.

In: a description of one JSON-lines file. Out: its records, their digest and where they lay. What
comes over the network is kept only if its digest is the known one; a user's own file may differ,
and the report then says so. Knows no suite.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import json
import urllib.request
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leeway.core.errors import ConfigError, FetchError
from leeway.core.files import write_whole
from leeway.quality.suites.base import LoadedSuite, Task

TIMEOUT_S = 60.0
MAX_BYTES = 256 << 20
_PACKED = ".gz"
Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file of one suite.

    Attributes:
        filename: as the authors call it, unpacked; a packed one has ".gz" behind it.
        url: where the authors publish it, perhaps packed.
        sha256: of its unpacked content (hex).
        package: (module, path inside it, what to install), if a package ships the file.
    """

    filename: str
    url: str
    sha256: str
    package: tuple[str, str, str] | None = None


@dataclass(frozen=True, slots=True)
class Content:
    """A file's unpacked bytes and where they lay."""

    data: bytes
    where: str

    @property
    def sha256(self) -> str:
        """Digest of the unpacked content (hex)."""
        return hashlib.sha256(self.data).hexdigest()


def load_tasks(
    file: DataFile,
    make_tasks: Callable[[list[Record]], list[Task]],
    data_dir: Path | None,
    cache_dir: Path,
    *,
    offline: bool,
) -> LoadedSuite:
    """Return a suite's tasks from the first place that has its file.

    Raises:
        ConfigError: a folder does not exist, or a file in it is not this suite's.
        FetchError: no place has the file; the message lists each with its reason.
    """
    content = find_content(file, data_dir, cache_dir, offline=offline)
    try:
        records = [json.loads(line) for line in content.data.splitlines() if line.strip()]
        tasks = tuple(make_tasks(records))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{content.where} is not {file.filename} as {file.url} has it: "
            f"{type(error).__name__} {error}; give the authors' own file"
        ) from error
    if not tasks:
        raise ConfigError(f"{content.where} holds no task; give the authors' own file")
    return LoadedSuite(tasks, content.sha256, content.where, content.sha256 == file.sha256)


def find_content(
    file: DataFile, data_dir: Path | None, cache_dir: Path, *, offline: bool
) -> Content:
    """Return a file's content from the first place that has it; see `load_tasks`."""
    failures = []
    if data_dir is not None:
        if not data_dir.is_dir():
            raise ConfigError(f"--data-dir {str(data_dir)!r} is not a folder; give one that exists")
        found = _in_folder(data_dir, file)
        if found is not None:
            return found
        failures.append(f"{data_dir}: there is neither {file.filename} nor {file.filename}.gz")
    if file.package is not None:
        found = _in_package(file.package)
        if found is not None:
            return found
        failures.append(f"package: {file.package[2]} is not installed")
    kept = cache_dir / "data" / file.filename
    if kept.is_file():
        content = _read(kept)
        if content.sha256 == file.sha256:
            return content
        failures.append(f"cache: {kept} has SHA-256 {content.sha256}, not {file.sha256}")
    else:
        failures.append(f"cache: there is no {kept}")
    if offline:
        failures.append(f"{file.url}: not tried, since offline was asked for")
        raise _not_had(file, failures)
    return _fetched(file, kept, failures)


def _in_folder(folder: Path, file: DataFile) -> Content | None:
    for name in (file.filename, file.filename + _PACKED):
        if (folder / name).is_file():
            return _read(folder / name)
    return None


def _in_package(package: tuple[str, str, str]) -> Content | None:
    module, inside, _ = package
    found = importlib.util.find_spec(module)  # looks, without running any of its code
    for folder in (found.submodule_search_locations or ()) if found else ():
        path = Path(folder, inside)
        if path.is_file():
            return _read(path)
    return None


def _read(path: Path) -> Content:
    try:
        return Content(_unpacked(path.read_bytes(), path.name), str(path))
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(f"{path} cannot be read: {error}; give the authors' own file") from error


def _unpacked(data: bytes, name: str) -> bytes:
    return gzip.decompress(data) if name.endswith(_PACKED) else data


def _fetched(file: DataFile, kept: Path, failures: list[str]) -> Content:
    """Download a file, verify it, put it into the cache; mutates `failures`."""
    try:
        with urllib.request.urlopen(file.url, timeout=TIMEOUT_S) as answer:
            packed = answer.read(MAX_BYTES)
        content = Content(_unpacked(packed, file.url), f"{file.url} (kept as {kept})")
    except (OSError, EOFError, zlib.error) as error:
        failures.append(f"{file.url}: {error}")
        raise _not_had(file, failures) from error
    if content.sha256 != file.sha256:
        failures.append(f"{file.url}: it has SHA-256 {content.sha256}, not {file.sha256}")
        raise _not_had(file, failures)
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_whole(kept, content.data)
    except OSError as error:
        raise FetchError(
            f"cannot write to {kept.parent}: {error.strerror or error}; choose another folder with "
            "--cache-dir or LEEWAY_CACHE_DIR"
        ) from error
    return content


def _not_had(file: DataFile, failures: list[str]) -> FetchError:
    tried = "".join(f"\n  - {failure}" for failure in failures)
    install = f", install {file.package[2]}" if file.package else ""
    return FetchError(
        f"cannot get {file.filename}; tried{tried}\n"
        f"Download {file.url} into a folder and name that with --data-dir{install}."
    )
