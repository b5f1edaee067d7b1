"""One call of the command line: the flags typed so far, and where its output goes.

Results go to stdout, everything else to stderr. Colour only on a terminal, and never with
`NO_COLOR` or `--no-color`; progress bars only on a terminal.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TextIO, cast

from leeway.core.config import Config, resolve
from leeway.core.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

PIPE_WIDTH = 120


@dataclass(frozen=True, slots=True)
class Call:
    """Flags by setting name (as typed, unchecked) and the configuration file named by a flag.

    `words` are all that was typed, but for flags that every verb has.
    """

    flags: Mapping[str, object]
    config_path: str | None = None
    words: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """The command line as a shell takes it."""
        return shlex.join(("leeway", *self.words))

    def with_flags(self, flags: Mapping[str, object]) -> Call:
        """Return a call with these flags added."""
        return replace(self, flags={**self.flags, **flags})

    def with_model(self, model: str | None) -> Call:
        """Return a call with the model that was named as an argument.

        Raises:
            ConfigError: `--model` names another one.
        """
        flag = self.flags.get("model")
        if model is None or flag == model:
            return self
        if flag is not None:
            raise ConfigError(
                f"MODEL is {model!r} and --model is {flag!r}; give one", param="model"
            )
        return self.with_flags({"model": model})

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

    def out(self, *, is_trimmed: bool = True) -> Console:
        """Return a console on stdout; in a pipe lines lose the blanks that pad a table."""
        return self._console(sys.stdout, is_trimmed)

    def log(self) -> Console:
        """Return a console on stderr."""
        return self._console(sys.stderr, is_trimmed=True)

    def print_json(self, value: object) -> None:
        """Print one JSON value on stdout."""
        print(to_json(value))

    def note(self, message: str) -> None:
        """Print one line on stderr unless quiet."""
        if not self.is_quiet:
            print(message, file=sys.stderr, flush=True)

    def _console(self, stream: TextIO, is_trimmed: bool) -> Console:
        from rich.console import Console

        has_own_width = stream.isatty() or "COLUMNS" in os.environ
        is_plain = is_trimmed and not stream.isatty()
        return Console(
            file=cast(TextIO, _TrimmedLines(stream)) if is_plain else stream,
            no_color=not self.has_color,
            highlight=False,
            emoji=False,
            markup=False,
            width=None if has_own_width else PIPE_WIDTH,
        )


class _TrimmedLines:
    """A stream without blanks at line ends."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(re.sub(r"[ \t]+(?=\n)", "", text))
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return False


def to_json(value: object) -> str:
    """Return one JSON value as the command line prints it."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
