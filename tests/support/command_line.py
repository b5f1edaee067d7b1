"""Running the command line: in this process for its output, in one of its own for signals."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from leeway.cli.main import main

_AS_AT_A_TERMINAL = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
"""What a shell starts in the background, this suite perhaps, would ignore Ctrl-C."""
PROGRAM = (
    sys.executable,
    "-c",
    _AS_AT_A_TERMINAL + "import sys; from leeway.cli.main import main; sys.exit(main())",
)


@dataclass(frozen=True)
class Outcome:
    """What one command line did."""

    code: int
    out: str
    err: str


class CommandLine:
    """Runs `leeway` in an environment of its own: no variables, no files, an empty cache."""

    def __init__(self, folder: Path, monkeypatch, capsys) -> None:
        for name in list(os.environ):
            if name.startswith("LEEWAY_") or name in ("NO_COLOR", "COLUMNS"):
                monkeypatch.delenv(name)
        monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "xdg"))
        monkeypatch.setenv("LEEWAY_CACHE_DIR", str(folder / "cache"))
        monkeypatch.chdir(folder)
        self.folder = folder
        self._capsys = capsys

    def __call__(self, *words: str) -> Outcome:
        """Run in this process."""
        self._capsys.readouterr()
        code = main(words)
        out, err = self._capsys.readouterr()
        return Outcome(code, out, err)

    def start(
        self,
        *words: str,
        env: Mapping[str, str] | None = None,
        stdout: int | IO[str] = subprocess.PIPE,
        stderr: int | IO[str] = subprocess.PIPE,
    ) -> subprocess.Popen[str]:
        """Start a process of its own, with pipes on the streams that are not given."""
        return subprocess.Popen(
            [*PROGRAM, *words],
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=stderr,
            text=True,
            env={**os.environ, **(env or {})},
        )

    def run(self, *words: str, stdin: str = "", env: Mapping[str, str] | None = None) -> Outcome:
        """Run in a process of its own to its end."""
        with self.start(*words, env=env) as process:
            out, err = process.communicate(stdin, timeout=120)
        return Outcome(process.returncode, out, err)
