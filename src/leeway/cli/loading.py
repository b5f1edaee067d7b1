"""Loading a model for a verb: early checks, progress while fetching, origins in errors."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from leeway.cli.call import Screen
from leeway.core.config import Config
from leeway.core.errors import LawError, RequestError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from leeway.llm import LLM

_ANY_VOCABULARY = sys.maxsize


def check_early(config: Config) -> None:
    """Refuse what can be refused before a model is fetched or loaded.

    Raises:
        LawError: the law or one of its options is wrong; names its origin.
        RequestError: a sampling parameter is out of range; names its origin.
    """
    from leeway.acceptance.registry import build_law
    from leeway.sampling.params import check_sampling

    with naming_origins(config):
        build_law(config.engine.acceptance)
        check_sampling(config.sampling, _ANY_VOCABULARY)


@contextmanager
def naming_origins(config: Config) -> Iterator[None]:
    """Add to a refusal where the refused setting came from."""
    try:
        yield
    except LawError as error:
        law_origin = config.engine.origin("acceptance")
        origin = config.engine.origins.get(f"acceptance.{error.param}", law_origin)
        raise LawError(f"{error.message} (from {origin})", param=error.param) from None
    except RequestError as error:
        item = config.values.get(error.param or "")
        if item is None:
            raise
        raise RequestError(f"{error.message} (from {item.origin})", param=error.param) from None


def load_llm(config: Config, screen: Screen) -> LLM:
    """Return the model that the configuration names, ready to decode.

    Raises:
        LeewayError: a setting is refused, or the model cannot be had or used.
    """
    check_early(config)
    with naming_origins(config), progress(screen, names_of(config)) as shown:
        from leeway.llm import LLM

        return LLM(config.engine, on_progress=shown)


def names_of(config: Config) -> str:
    """Return the model's name, and the draft model's, for people; of a path its last part."""
    names = [config.engine.model, config.engine.draft_model]
    return " and ".join(Path(name).name or name for name in names if name is not None)


class Progress(Protocol):
    """Told how far a download is (what, done bytes, total bytes); closed when all is loaded."""

    def __call__(self, what: str, done: int, total: int) -> None:
        """Show it."""

    def close(self) -> None:
        """Take away what is drawn; may be called again."""


@contextmanager
def progress(screen: Screen, loading: str = "") -> Iterator[Progress]:
    """Give something that shows how far a download is: a bar on a terminal, else two lines.

    On a terminal it also says that `loading` loads, until it is closed.
    """
    shown: Progress = _Drawn(screen, loading) if screen.is_live else _Lines(screen)
    try:
        yield shown
    finally:
        shown.close()


class _Lines:
    """One line a stage, for logs."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._announced: set[str] = set()

    def __call__(self, what: str, done: int, total: int) -> None:
        if what not in self._announced:
            self._announced.add(what)
            self._screen.note(f"{what} ({total / 1e6:.0f} MB)" if total else what)

    def close(self) -> None:
        """Lines stay."""


class _Drawn:
    """A line while a model loads, bars while one is fetched; neither stays."""

    def __init__(self, screen: Screen, loading: str) -> None:
        self._console = screen.log()
        self._bars: Bars | None = None
        self._tasks: dict[str, TaskID] = {}
        self._has_line = bool(loading) and not self._console.is_dumb_terminal
        if self._has_line:
            line = f"loading {loading} ..."
            self._write(line[: self._console.width - 1])

    def __call__(self, what: str, done: int, total: int) -> None:
        if self._bars is None:
            self._clear_line()
            self._bars = _bars(self._console)
            self._bars.start()
        if what not in self._tasks:
            self._tasks[what] = self._bars.add_task(what, total=total or None)
        self._bars.update(self._tasks[what], completed=done)

    def close(self) -> None:
        self._clear_line()
        if self._bars is not None:
            self._bars.stop()

    def _clear_line(self) -> None:
        if self._has_line:
            self._write("\r\x1b[2K")
            self._has_line = False

    def _write(self, text: str) -> None:
        self._console.file.write(text)
        self._console.file.flush()


def counting_bars(screen: Screen, *, is_transient: bool) -> Bars:
    """Return bars that count things done, not yet begun; for a screen that is live."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Bars(*columns, TimeRemainingColumn(), console=screen.log(), transient=is_transient)


def _bars(console: Console) -> Bars:
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    return Bars(*columns, console=console, transient=True)
