"""Folders that one process writes to at a time."""

import subprocess
import sys

import pytest

from leeway.core.errors import ConfigError
from leeway.core.files import only_writer

HOLDER = """
import sys
from pathlib import Path
from leeway.core.files import only_writer
with only_writer(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_writer_is_refused_until_the_first_has_ended_however_it_did(tmp_path):
    folder = tmp_path / "new" / "run"
    command = [sys.executable, "-c", HOLDER, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(ConfigError, match=r"--out '.*run': another process writes there"):  # noqa: SIM117
            with only_writer(folder):
                pass
        holder.kill()
    for _ in range(2):
        with only_writer(folder):
            (folder / "result").write_text("kept")
    assert (folder / "result").read_text() == "kept"


def test_no_folder_locks_nothing():
    with only_writer(None), only_writer(None):
        pass


def test_a_folder_that_cannot_be_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"--work '.*file' cannot be written: File exists"):  # noqa: SIM117
        with only_writer(tmp_path / "file", "--work"):
            pass
