"""Hostile programs: each must fail inside its limits and leave nothing behind.

The programs run in bubblewrap where it is there; without it these tests are skipped, aloud. Each
check that the sandbox keeps something out is also shown to let it through without the sandbox.
"""

from __future__ import annotations

import itertools
import os
import socket
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from leeway.core.errors import ConfigError, SandboxError
from leeway.quality.sandbox import Limits, ProcessSandbox, open_sandbox

NO_TESTS = "pass\n"
SMALL = Limits(wall_s=10.0, cpu_s=1.0, memory_bytes=512 << 20, file_bytes=4 << 20)
_marks = itertools.count()


def _with_mark(sandbox: ProcessSandbox) -> tuple[ProcessSandbox, str]:
    """Return a sandbox with a file limit that no other process has in its command line."""
    file_bytes = SMALL.file_bytes + os.getpid() * 64 + next(_marks) % 64
    limits = replace(sandbox.limits, file_bytes=file_bytes)
    return replace(sandbox, limits=limits), str(file_bytes)


def _still_running(mark: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if mark.encode() in words:
            found.append(str(path))
    return found


@pytest.fixture(name="sandbox", scope="module")
def _sandbox():
    try:
        return open_sandbox(limits=SMALL)
    except ConfigError as error:
        pytest.skip(f"no sandbox for hostile programs: {error}")


@pytest.fixture(name="bare", scope="module")
def _bare():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shutil.which", lambda _: None)
        return open_sandbox(allow_unsandboxed=True, limits=SMALL)


@pytest.fixture(name="either", params=["bubblewrap", "bare"])
def _either(request):
    """The fixture of one kind: what needs no isolation holds for both."""
    name = "sandbox" if request.param == "bubblewrap" else "bare"
    return request.getfixturevalue(name)


def test_what_is_right_passes(either):
    verdict = either.run("def add(a, b):\n    return a + b\n", "assert add(1, 2) == 3\n")
    assert verdict.has_passed and verdict.detail == ""


def test_numpy_is_there(either):
    assert either.run("import numpy as np\nx = np.arange(3)\n", "assert x.sum() == 3\n").has_passed


def test_tests_do_not_replace_what_the_solution_uses(either):
    solution = "def helper():\n    return 1\n\ndef f():\n    return helper()\n"
    tests = "def helper():\n    return 2\n\nassert f() == 1 and helper() == 2\n"
    assert either.run(solution, tests).has_passed


def test_dataclasses_and_text_beyond_ascii_work(either):
    solution = "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: str = 'é\\ud800'\n"
    assert either.run(solution, "assert P().x[0] == 'é'\n").has_passed


FAILURES = {
    "wrong": ("def f():\n    return 1\n", "assert f() == 2, 'one'\n", "AssertionError: one"),
    "raises": ("def f():\n    return {}[7]\n", "f()\n", "KeyError: 7"),
    "syntax": ("def f(:\n", NO_TESTS, "SyntaxError: invalid syntax (solution, line 1)"),
    "missing": ("", "f()\n", "NameError: name 'f' is not defined"),
    "recursion": ("def f():\n    return f()\n", "f()\n", "RecursionError: maximum recursion"),
    "prints success": ("print('passed')\n", "assert False\n", "AssertionError"),
    "leaves": ("import os\nos._exit(0)\n", NO_TESTS, "ended before its tests did"),
    "leaves in a test": ("import os\ndef f():\n    os._exit(0)\n", "f()\n", "ended before its"),
    "exits": ("import sys\nsys.exit(0)\n", NO_TESTS, "SystemExit: 0"),
    "exits at exit": (
        "import atexit, os\natexit.register(os._exit, 0)\nraise SystemExit\n",
        NO_TESTS,
        "SystemExit",
    ),
    "crashes": ("import ctypes\nctypes.string_at(0)\n", NO_TESTS, "ended before its tests did"),
    "aborts": ("import os\nos.abort()\n", NO_TESTS, "ended before its tests did"),
    "writes a verdict": (
        "import os\nfor fd in range(64):\n    try:\n"
        "        os.write(fd, b'started\\n \\n passed\\n')\n    except OSError:\n        pass\n"
        "os._exit(0)\n",
        NO_TESTS,
        "ended before its tests did",
    ),
    "closes all and goes on": (
        "import os\nos.closerange(0, 64)\nwhile True:\n    pass\n",
        NO_TESTS,
        "took more time than it may",
    ),
    "waits for input": ("input()\n", NO_TESTS, "EOFError"),
    "endless loop": ("while True:\n    pass\n", NO_TESTS, "took more time than it may"),
    "endless output": ("while True:\n    print('x' * 999)\n", NO_TESTS, "took more time than it"),
    "output where it must not": (
        "import os\nwhile True:\n    for fd in range(3, 64):\n        try:\n"
        "            os.write(fd, b'x' * 999)\n        except OSError:\n            pass\n",
        NO_TESTS,
        "wrote more than it may",
    ),
    "memory hog": ("x = []\nwhile True:\n    x.append('x' * 10**7)\n", NO_TESTS, "MemoryError"),
    "memory at once": ("x = bytearray(1 << 34)\n", NO_TESTS, "MemoryError"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_is_a_failure_with_its_reason_and_leaves_nothing(either, name):
    solution, tests, detail = FAILURES[name]
    marked, mark = _with_mark(either)
    verdict = marked.run(solution, tests)
    assert not verdict.has_passed
    assert verdict.detail.startswith(detail), verdict.detail
    assert not _still_running(mark)


@pytest.mark.parametrize("before", ["", "import os; os.closerange(0, 64)"], ids=["open", "closed"])
def test_sleep_ends_at_the_wall(either, before):
    short = replace(either, limits=replace(SMALL, wall_s=1.0))
    marked, mark = _with_mark(short)
    verdict = marked.run(f"{before}\nimport time\ntime.sleep(3600)\n", NO_TESTS)
    assert verdict.detail == "took more time than it may"
    assert not _still_running(mark)


def test_patience_gives_slow_tests_more_time(bare):
    wait = "import time\ntime.sleep(0.6)\n"
    short = replace(bare, limits=replace(SMALL, wall_s=0.5))
    assert short.run(wait, NO_TESTS).detail == "took more time than it may"
    assert short.run(wait, NO_TESTS, patience=20.0).has_passed


FORKS = {
    "bomb": "import os\nwhile True:\n    os.fork()\n",
    "stubborn bomb": "import os\nwhile True:\n    try:\n        os.fork()\n"
    "    except OSError:\n        pass\n",
    "threads": "import threading, time\nwhile True:\n"
    "    threading.Thread(target=time.sleep, args=(9,)).start()\n",
    "shell": "import subprocess\nsubprocess.run(['sh', '-c', ':'])\n",
    "daemon": "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(3600)\n",
}


@pytest.mark.parametrize("name", FORKS)
def test_no_process_beside_it(sandbox, name):
    marked, mark = _with_mark(sandbox)
    assert not marked.run(FORKS[name], NO_TESTS).has_passed
    assert not _still_running(mark)


KILLS = {
    "parent": "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n",
    "everything": "import os, signal\nos.kill(-1, signal.SIGKILL)\n",
    "group": "import os, signal\nos.killpg(0, signal.SIGKILL)\n",
    "the one that asked": f"import os, signal\nos.kill({os.getpid()}, signal.SIGKILL)\n",
}


@pytest.mark.parametrize("name", KILLS)
def test_it_kills_nobody_else(sandbox, name):
    marked, mark = _with_mark(sandbox)
    verdict = marked.run(KILLS[name], "assert False, 'still here'\n")
    assert not verdict.has_passed
    # It is the first process inside: there is no parent, and the kernel spares it its own signals.
    assert verdict.detail.startswith(("AssertionError: still here", "ProcessLookupError"))
    assert not _still_running(mark)
    assert sandbox.run("", NO_TESTS).has_passed


def test_the_users_files_are_not_there(sandbox, bare, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("mine")
    project = Path(__file__).parents[3]
    places = [secret, project, Path.home() / ".ssh", Path("/etc/passwd"), Path("/proc/self")]
    solution = (
        f"import os\nplaces = {[str(one) for one in places]!r}\n"
        "seen = [one for one in places if os.path.exists(one)]\n"
        f"home = {str(Path.home())!r}\nseen += os.listdir(home) if os.path.isdir(home) else []\n"
    )
    assert sandbox.run(solution, "assert not seen, seen\n").detail == ""
    detail = bare.run(solution, "assert not seen, seen\n").detail
    assert str(secret) in detail and str(project) in detail


def test_it_sees_no_variable_of_the_users(either, monkeypatch):
    monkeypatch.setenv("LEEWAY_API_KEY", "mine")
    assert either.run("import os\n", "assert 'LEEWAY_API_KEY' not in os.environ\n").has_passed


def test_no_network_not_even_to_this_machine(sandbox, bare):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        solution = (
            "import socket\n"
            f"with socket.create_connection(('127.0.0.1', {port}), timeout=5) as connection:\n"
            "    connection.sendall(b'mine')\n"
        )
        verdict = sandbox.run(solution, NO_TESTS)
        assert not verdict.has_passed
        assert verdict.detail.startswith(("ConnectionRefusedError", "OSError"))
        assert bare.run(solution, NO_TESTS).has_passed
        server.settimeout(0)
        server.accept()[0].close()
        with pytest.raises(BlockingIOError):
            server.accept()


def test_the_disk_cannot_be_filled(sandbox):
    solution = (
        "import os\nwritten = 0\ntry:\n    for number in range(100):\n"
        "        with open(f'/tmp/{number}', 'wb') as file:\n"
        "            written += file.write(b'x' * (1 << 20))\n"
        "except OSError:\n    pass\n"
    )
    assert sandbox.run(solution, "assert 0 < written <= 4 << 20, written\n").detail == ""
    one = "with open('/tmp/x', 'wb') as file:\n    file.write(b'x' * (5 << 20))\n"
    assert sandbox.run(one, NO_TESTS).detail.startswith("OSError")


def test_one_file_is_limited_without_bubblewrap_too(bare):
    one = "with open('x', 'wb') as file:\n    file.write(b'x' * (5 << 20))\n"
    assert bare.run(one, NO_TESTS).detail.startswith("OSError: [Errno 27]")


def test_nothing_outside_tmp_can_be_written(sandbox):
    folders = ["/", "/usr", "/dev", "/dev/shm", "/python", "/packages", "/etc", "/var/tmp"]
    folders += [str(Path(__file__).parent)]
    solution = (
        f"import os\nwritten = []\nfor folder in {folders!r}:\n    try:\n"
        "        os.makedirs(folder, exist_ok=True)\n"
        "        open(os.path.join(folder, 'planted'), 'w').close()\n"
        "        written.append(folder)\n    except OSError:\n        pass\n"
        "open('/tmp/planted', 'w').close()\n"
    )
    # A checkout may lie under /tmp, which is another /tmp inside.
    tests = "outside = [one for one in written if not one.startswith('/tmp/')]\n"
    assert sandbox.run(solution, f"{tests}assert not outside, outside\n").detail == ""
    assert not Path(__file__).with_name("planted").exists()


def test_nothing_stays_for_the_next_program(either):
    solution = "import os\nseen = os.listdir()\nopen('mine', 'w').close()\n"
    for _ in range(2):
        assert either.run(solution, "assert seen == [], seen\n").has_passed


def test_programs_run_side_by_side(either):
    found = {}

    def work(number: int) -> None:
        found[number] = either.run(f"x = {number}\n", "assert x % 2 == 0, x\n").detail

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {0: "", 1: "AssertionError: 1", 2: "", 3: "AssertionError: 3"}


def test_without_bubblewrap_it_refuses_and_says_what_to_do(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(ConfigError) as caught:
        open_sandbox()
    for words in ("bwrap", "apt-get install bubblewrap", "--allow-unsandboxed", "your files"):
        assert words in caught.value.message


def test_a_bubblewrap_that_does_not_work_is_refused_in_its_own_words(monkeypatch, tmp_path):
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: Creating new namespace failed' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr("shutil.which", lambda _: str(broken))
    with pytest.raises(ConfigError, match="Creating new namespace failed"):
        open_sandbox()
    assert open_sandbox(allow_unsandboxed=True).isolation.startswith("none")


def test_a_sandbox_that_does_not_start_is_no_verdict(bare):
    with pytest.raises(SandboxError, match="No such file"):
        replace(bare, command=("/nowhere/python",)).run("", NO_TESTS)
    with pytest.raises(SandboxError, match="it said nothing"):
        replace(bare, command=("/bin/true",)).run("", NO_TESTS)
