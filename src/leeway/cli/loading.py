"""Loading a model for a verb: early checks, progress while fetching, origins in errors."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from leeway.cli.call import Screen
from leeway.core.config import Config
from leeway.core.errors import LawError, RequestError

if TYPE_CHECKING:
    from leeway.engine.load import OnProgress
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
    from leeway.llm import LLM

    with naming_origins(config), progress(screen) as on_progress:
        return LLM(config.engine, on_progress=on_progress)


@contextmanager
def progress(screen: Screen) -> Iterator[OnProgress]:
    """Give a function that shows how far a download is: a bar on a terminal, else two lines."""
    if screen.is_live:
        with _bar(screen) as on_progress:
            yield on_progress
        return
    announced: set[str] = set()

    def announce(what: str, done: int, total: int) -> None:
        if what not in announced:
            announced.add(what)
            screen.note(f"{what} ({total / 1e6:.0f} MB)" if total else what)

    yield announce


@contextmanager
def _bar(screen: Screen) -> Iterator[OnProgress]:
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TaskID,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    tasks: dict[str, TaskID] = {}
    bars = Progress(*columns, console=screen.log(), transient=True)

    def update(what: str, done: int, total: int) -> None:
        if what not in tasks:
            bars.start()
            tasks[what] = bars.add_task(what, total=total or None)
        bars.update(tasks[what], completed=done)

    try:
        yield update
    finally:
        if tasks:
            bars.stop()
