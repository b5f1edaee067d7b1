"""Servers that a measurement starts itself: begun, waited for, stopped.

In: a command line and the URL at which it will answer. Out: a running server for the time of a
`with`. Its output goes to a file, the end of which is shown where it does not come up. It has a
process group of its own, so that Ctrl-C does not break the answers that are being measured. On
Linux it is ended when this process is, however that happened.
"""

from __future__ import annotations

import ctypes
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO

from leeway.bench.http_stream import get_json
from leeway.core.errors import ConfigError

READY_TIMEOUT_S = 600.0
_POLL_S = 0.05
_PROBE_TIMEOUT_S = 5.0
_STOP_TIMEOUT_S = 15.0
_SHOWN_BYTES = 2000
_PR_SET_PDEATHSIG = 1


def free_port() -> int:
    """Return a port of this machine that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert isinstance(port, int)
    return port


@contextmanager
def running(
    name: str,
    command: Sequence[str],
    url: str,
    *,
    environment: Mapping[str, str] | None = None,
    ready_timeout_s: float = READY_TIMEOUT_S,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server until the end of the `with`; it begins when the server lists its models.

    Args:
        name: for errors.
        command: the program and its arguments.
        url: of the API, ending in a path such as /v1.
        environment: of the process; that of this one without it.
        ready_timeout_s: longest wait for it.

    Raises:
        ConfigError: the program cannot be started, ends, or is not ready in time.
    """
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
                preexec_fn=_end_with_parent(),  # noqa: PLW1509 - one call, no allocation, no lock
            )
        except OSError as reason:
            raise ConfigError(
                f"{name}: {command[0]!r} cannot be started ({reason.strerror})"
            ) from None
        try:
            _wait(name, process, url, output, ready_timeout_s)
            yield process
        finally:
            _stop(process)


def _end_with_parent() -> Callable[[], object] | None:
    """Return what makes the system end a child when its parent dies; None where none does."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _wait(
    name: str, process: subprocess.Popen[bytes], url: str, output: IO[bytes], timeout_s: float
) -> None:
    ends = time.monotonic() + timeout_s
    while True:
        if process.poll() is not None:
            raise ConfigError(
                f"{name} ended with exit code {process.returncode} before it was ready:\n"
                f"{_last_words(output)}"
            )
        try:
            get_json(url + "/models", _PROBE_TIMEOUT_S)
            return
        except OSError:
            if time.monotonic() > ends:
                raise ConfigError(
                    f"{name} was not ready within {timeout_s:g} s:\n{_last_words(output)}"
                ) from None
        time.sleep(_POLL_S)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _last_words(output: IO[bytes]) -> str:
    output.seek(0)
    return output.read()[-_SHOWN_BYTES:].decode(errors="replace").strip()
