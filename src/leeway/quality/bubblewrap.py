"""The command that starts a bare Python inside bubblewrap.

In: where Python and its packages lie. Out: a command line. Inside there are the system's own
programs, this Python and NumPy, all read-only, an empty /tmp of a stated size, and a few devices:
no home, no project, no /proc, no network, and no process but its own.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from dataclasses import dataclass
from pathlib import Path

PYTHON_PLACE = Path("/python")
PACKAGES_PLACE = Path("/packages")
_NOBODY = "65534"
_SYSTEM = Path("/usr")
_ROOT_FOLDERS = ("bin", "lib", "lib64", "lib32")


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python without this project's packages.

    Attributes:
        executable: of the Python that a virtual environment was made from.
        prefix: folder it was installed to.
        packages: folders of NumPy, bound one by one so that nothing beside them is seen.
    """

    executable: Path
    prefix: Path
    packages: tuple[Path, ...]


def this_interpreter() -> Interpreter:
    """Return the Python that runs this."""
    executable = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    return Interpreter(executable, Path(sys.base_prefix).resolve(), _numpy_folders())


def wrapped(
    bwrap: str, python: Interpreter, tmp_bytes: int, *, is_root: bool
) -> tuple[list[str], list[str]]:
    """Return (command up to and with the executable, folders to search for packages).

    Args:
        bwrap: path of bubblewrap.
        python: what to run.
        tmp_bytes: room in /tmp.
        is_root: whether this process is root. Then the program inside starts as root without any
            capability but to become somebody else, which it must do: the limit on processes does
            not hold for root. Otherwise a user namespace makes it nobody from the start.
    """
    # As first process it takes all others with it, and bubblewrap ends only after it is gone.
    command = [bwrap, "--die-with-parent", "--as-pid-1", "--new-session", "--clearenv"]
    command += ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    command += ["--unshare-cgroup-try"]
    if is_root:
        command += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        command += ["--unshare-user", "--uid", _NOBODY, "--gid", _NOBODY]
    command += _system_folders()
    executable = python.executable
    if python.prefix != _SYSTEM and python.executable.is_relative_to(python.prefix):
        # Under a name of its own: the folders above a home's are closed to others.
        executable = PYTHON_PLACE / python.executable.relative_to(python.prefix)
        command += ["--ro-bind", str(python.prefix), str(PYTHON_PLACE)]
        command += ["--setenv", "LD_LIBRARY_PATH", str(PYTHON_PLACE / "lib")]
    command += ["--perms", "0755", "--dir", str(PACKAGES_PLACE)]
    for folder in python.packages:
        command += ["--ro-bind", str(folder), str(PACKAGES_PLACE / folder.name)]
    # NumPy's threads would count as processes and as memory.
    command += ["--setenv", "OPENBLAS_NUM_THREADS", "1", "--setenv", "OMP_NUM_THREADS", "1"]
    command += ["--dev", "/dev", "--perms", "1777", "--size", str(tmp_bytes), "--tmpfs", "/tmp"]
    command += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp", "--"]
    return [*command, str(executable)], [str(PACKAGES_PLACE)] if python.packages else []


def _system_folders() -> list[str]:
    arguments = ["--ro-bind", str(_SYSTEM), str(_SYSTEM)]
    arguments += ["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]
    for name in _ROOT_FOLDERS:
        folder = Path("/", name)
        if folder.is_symlink():
            arguments += ["--symlink", str(folder.readlink()), str(folder)]
        elif folder.is_dir():
            arguments += ["--ro-bind", str(folder), str(folder)]
    return arguments


def _numpy_folders() -> tuple[Path, ...]:
    found = importlib.util.find_spec("numpy")
    if found is None or not found.submodule_search_locations:
        return ()
    package = Path(found.submodule_search_locations[0])
    libraries = package.with_name("numpy.libs")
    return (package, libraries) if libraries.is_dir() else (package,)


def is_root() -> bool:
    """Return whether this process may do everything."""
    return os.geteuid() == 0
