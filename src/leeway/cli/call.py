"""One call of the command line: the flags typed so far, and where its output goes.

Results go to stdout, everything else to stderr. Colour only on a terminal, and never with
`NO_COLOR` or `--no-color`; progress bars only on a terminal.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from leeway.core.config import Config, resolve

if TYPE_CHECKING:
    from rich.console import Console

PIPE_WIDTH = 120


@dataclass(frozen=True, slots=True)
class Call:
    """Flags by setting name (as typed, unchecked) and the configuration file named by a flag."""

    flags: Mapping[str, object]
    config_path: str | None = None

    def with_flags(self, flags: Mapping[str, object]) -> Call:
        """Return a call with these flags added."""
        return replace(self, flags={**self.flags, **flags})

    def resolve(self) -> tuple[Config, Screen]:
        """Return the configuration in force and the screen to print on.

        Raises:
            ConfigError: a flag, variable or file key is wrong.
        """
        config = resolve(self.flags, config_path=self.config_path)
        return config, Screen(
            is_json=config.is_on("json"),
            is_quiet=config.is_on("quiet"),
            has_color=not config.is_on("no_color"),
        )


@dataclass(frozen=True, slots=True)
class Screen:
    """Where a verb prints."""

    is_json: bool = False
    is_quiet: bool = False
    has_color: bool = True

    @property
    def is_live(self) -> bool:
        """Whether progress may be drawn: stderr is a terminal and neither quiet nor JSON."""
        return sys.stderr.isatty() and not self.is_quiet and not self.is_json

    def out(self) -> Console:
        """Return a console on stdout."""
        return self._console(is_error=False)

    def log(self) -> Console:
        """Return a console on stderr."""
        return self._console(is_error=True)

    def print_json(self, value: object) -> None:
        """Print one JSON value on stdout."""
        print(json.dumps(value, indent=2, ensure_ascii=False))

    def note(self, message: str) -> None:
        """Print one line on stderr unless quiet."""
        if not self.is_quiet:
            print(message, file=sys.stderr, flush=True)

    def _console(self, *, is_error: bool) -> Console:
        from rich.console import Console

        stream = sys.stderr if is_error else sys.stdout
        has_own_width = stream.isatty() or "COLUMNS" in os.environ
        return Console(
            stderr=is_error,
            no_color=not self.has_color,
            highlight=False,
            soft_wrap=False,
            emoji=False,
            markup=False,
            width=None if has_own_width else PIPE_WIDTH,
        )
