"""A place where a program that a model wrote can do no harm, and cannot claim to have passed.

In: a solution and its tests as text. Out: a verdict. Bubblewrap keeps the program from the network,
from the user's files and from other processes; limits on memory, processor time, output and wall
time keep it from holding the machine up. Knows no suite.

Against a program that looks for the verdict inside its own interpreter this is no proof: solution
and tests share one process, as in every harness that calls a Python function from Python.
"""

from __future__ import annotations

import importlib.resources
import math
import secrets
import shutil
import signal
from dataclasses import dataclass
from typing import Protocol

from leeway.core.errors import ConfigError, SandboxError
from leeway.quality.bubblewrap import is_root, this_interpreter, wrapped
from leeway.quality.sandbox_process import Ended, run_process
from leeway.quality.sandbox_program import STARTED

INSTALL = (
    "install it (Debian, Ubuntu: `apt-get install bubblewrap`; Fedora: `dnf install bubblewrap`)"
)
UNSANDBOXED = (
    "--allow-unsandboxed: programs that a model wrote run as you, with your files and your network "
    "in reach. Limits on time and memory remain; they are no sandbox. Do this only on a machine "
    "that holds nothing you would miss"
)
_TIME_SIGNALS = (signal.SIGXCPU, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one program may use.

    Attributes:
        wall_s: seconds from start to verdict; generous, since other programs run beside it.
        cpu_s: processor seconds.
        memory_bytes: address space; one solution of MBPP+'s own authors takes 2.3 GiB.
        file_bytes: of one file, and of all files together in /tmp inside bubblewrap.
        output_bytes: of anything that comes out beside the verdict.
    """

    wall_s: float = 60.0
    cpu_s: float = 6.0
    memory_bytes: int = 3 << 30
    file_bytes: int = 16 << 20
    output_bytes: int = 1 << 16


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one program and its tests.

    Attributes:
        has_passed: the tests ran to their end and none failed.
        detail: why not; empty when passed.
    """

    has_passed: bool
    detail: str


class Sandbox(Protocol):
    """Runs a program and then its tests; thread-safe, one process a call."""

    @property
    def isolation(self) -> str:
        """What holds the program, in words, for reports."""

    def run(self, solution: str, tests: str, *, patience: float = 1.0) -> Verdict:
        """Return whether `tests`, which see what `solution` defines, ran to their end.

        Args:
            solution: a program.
            tests: another one, which raises if the first is wrong.
            patience: how many times as long as usual they may take.

        Raises:
            SandboxError: the sandbox itself failed; says nothing of the program.
        """


@dataclass(frozen=True, slots=True)
class ProcessSandbox:
    """A sandbox that starts one process for each program.

    Attributes:
        command: what starts a Python; the rest of the command line follows it.
        folders: where that Python finds packages.
        must_drop: whether the program has to become nobody by itself.
        is_bubblewrap: whether the command is bubblewrap.
    """

    command: tuple[str, ...]
    folders: tuple[str, ...]
    must_drop: bool
    is_bubblewrap: bool
    limits: Limits
    isolation: str

    def run(self, solution: str, tests: str, *, patience: float = 1.0) -> Verdict:
        """Return whether the tests ran to their end; see `Sandbox`."""
        secret = secrets.token_hex(16).encode()
        program = solution.encode("utf-8", "surrogatepass")
        text = b"%s\n%d\n%s%s" % (secret, len(program), program, tests.encode())
        preload = "numpy" if "import numpy" in tests else ""
        ended = run_process(
            self._command_line(preload, patience),
            text,
            wall_s=patience * self.limits.wall_s,
            output_bytes=self.limits.output_bytes,
            is_bubblewrap=self.is_bubblewrap,
        )
        return _verdict(ended, secret, self.limits)

    def _command_line(self, preload: str, patience: float) -> list[str]:
        source = importlib.resources.files("leeway.quality") / "sandbox_program.py"
        cpu_s = math.ceil(patience * self.limits.cpu_s)
        limits = (self.limits.memory_bytes, cpu_s, self.limits.file_bytes, int(self.must_drop))
        numbers = [str(value) for value in limits]
        bare = ["-I", "-S", "-B", "-c", source.read_text(encoding="utf-8")]
        return [*self.command, *bare, *numbers, preload, *self.folders]


def open_sandbox(*, allow_unsandboxed: bool = False, limits: Limits | None = None) -> Sandbox:
    """Return bubblewrap's sandbox, tried once; without bubblewrap, bare processes if allowed.

    Raises:
        ConfigError: bubblewrap is missing or does not work here, and bare processes are not
            allowed.
    """
    limits = limits or Limits()
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        reason = "bubblewrap (`bwrap`) is not on the PATH"
    else:
        sandbox = _bubblewrapped(bwrap, limits)
        reason = _why_broken(sandbox)
        if not reason:
            return sandbox
        reason = f"bubblewrap ({bwrap}) does not work here: {reason}"
    if allow_unsandboxed:
        return _bare(limits)
    raise ConfigError(
        f"programs that a model wrote are run only in a sandbox, and {reason}; {INSTALL}, "
        f"or accept {UNSANDBOXED}"
    )


def _bubblewrapped(bwrap: str, limits: Limits) -> ProcessSandbox:
    command, folders = wrapped(bwrap, this_interpreter(), limits.file_bytes, is_root=is_root())
    return ProcessSandbox(
        command=tuple(command),
        folders=tuple(folders),
        must_drop=is_root(),
        is_bubblewrap=True,
        limits=limits,
        isolation="bubblewrap: no network, no files of the user, no other process",
    )


def _bare(limits: Limits) -> ProcessSandbox:
    python = this_interpreter()
    return ProcessSandbox(
        command=(str(python.executable),),
        folders=tuple({str(folder.parent): None for folder in python.packages}),
        must_drop=False,
        is_bubblewrap=False,
        limits=limits,
        isolation="none: a process of the user's own with limits on time and memory",
    )


def _why_broken(sandbox: ProcessSandbox) -> str:
    try:
        verdict = sandbox.run("answer = 1\n", "import numpy\nassert answer == 1\n")
    except SandboxError as error:
        return error.message
    return verdict.detail


def _verdict(ended: Ended, secret: bytes, limits: Limits) -> Verdict:
    start, _, rest = ended.output.partition(STARTED)
    if STARTED not in ended.output and not ended.has_timed_out:
        reason = start.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise SandboxError(f"{reason or 'it said nothing'} (status {ended.status})")
    if len(ended.output) > limits.output_bytes:
        return Verdict(False, "wrote more than it may")
    if ended.has_timed_out:
        return Verdict(False, "took more time than it may")
    line = next((one for one in rest.split(b"\n") if one.startswith(secret + b" ")), None)
    if line is not None:
        detail = line[len(secret) + 1 :].decode("utf-8", "replace")
        return Verdict(not detail, detail)
    if _signal_of(ended.status) in _TIME_SIGNALS:
        return Verdict(False, "took more time than it may")
    return Verdict(False, "ended before its tests did")


def _signal_of(status: int) -> int:
    """Return the signal that ended a process: Python says it below 0, a shell above 128."""
    return -status if status < 0 else max(0, status - 128)
