"""One process from start to end, bounded in time and output, with nothing left of it behind.

In: a command and its input. Out: what it wrote and how it ended. Knows no verdict.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from leeway.core.errors import SandboxError

_CHUNK_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended.

    Attributes:
        output: standard output and error; a little over the limit if it wrote too much.
        status: as Python gives it: below 0 the signal.
        has_timed_out: whether it had to be ended because of the time.
    """

    output: bytes
    status: int
    has_timed_out: bool


def run_process(
    command: list[str], text: bytes, *, wall_s: float, output_bytes: int, is_bubblewrap: bool
) -> Ended:
    """Run a command in an empty folder to its end or its limit.

    Args:
        command: executable and arguments.
        text: standard input.
        wall_s: seconds.
        output_bytes: what it may write.
        is_bubblewrap: then all processes inside it have ended when this returns.

    Raises:
        SandboxError: it cannot be started.
    """
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="leeway-"))
        stdin = stack.enter_context(tempfile.TemporaryFile())
        stdin.write(text)
        stdin.seek(0)
        reading, writing = os.pipe()
        info = stack.enter_context(os.fdopen(reading, "rb"))
        if is_bubblewrap:
            command = [command[0], "--info-fd", str(writing), *command[1:]]
        try:
            process = _start(command, stdin, folder, (writing,) if is_bubblewrap else ())
        finally:
            os.close(writing)
        has_timed_out, output = True, b""
        try:
            output, has_timed_out = _read(process, time.monotonic() + wall_s, output_bytes)
        finally:
            _end(process, info)
            assert process.stdout is not None
            process.stdout.close()
    return Ended(output, process.returncode, has_timed_out)


def _start(
    command: list[str], stdin: IO[bytes], folder: str, pass_fds: tuple[int, ...]
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "TMPDIR": folder},
            start_new_session=True,
            pass_fds=pass_fds,
        )
    except OSError as error:
        raise SandboxError(f"cannot start {command[0]}: {error.strerror or error}") from error


def _read(
    process: subprocess.Popen[bytes], deadline: float, output_bytes: int
) -> tuple[bytes, bool]:
    """Return what came out until the end, the limit of output or that of time, and whether late."""
    assert process.stdout is not None
    output = bytearray()
    while len(output) <= output_bytes:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
            return bytes(output), True
        chunk = os.read(process.stdout.fileno(), _CHUNK_BYTES)
        if not chunk:
            # It may have closed its output and gone on.
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                return bytes(output), True
            break
        output += chunk
    return bytes(output), False


def _end(process: subprocess.Popen[bytes], info: IO[bytes]) -> None:
    """End a process if it has not ended, and wait for it.

    Of bubblewrap, the first process inside is killed: the kernel ends all others in there before
    it, and bubblewrap ends after it, so that waiting for that is waiting for all of them.
    """
    if process.poll() is None:
        inside = _first_inside(process.pid, info.read())
        if inside is not None:
            os.kill(inside, signal.SIGKILL)
            process.wait()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _first_inside(outside: int, info: bytes) -> int | None:
    """Return the process that bubblewrap named as its child, if it still is that."""
    try:
        child = int(json.loads(info)["child-pid"])
        status = Path(f"/proc/{child}/stat").read_text(encoding="utf-8", errors="replace")
    except (ValueError, KeyError, OSError):
        return None
    return child if int(status.rpartition(")")[2].split()[1]) == outside else None
