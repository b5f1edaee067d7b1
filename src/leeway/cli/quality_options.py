"""Flags that the verbs of `leeway quality` share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cyclopts import Parameter

from leeway.cli.bench_options import ARM as BENCH_ARM
from leeway.core.errors import ConfigError

DEFAULT_ARMS = ("rejection", "typical:delta=0.2", "tokenv3:alpha=0.75")


def _suite_names(_: object) -> Sequence[str]:
    from leeway.quality.suites.registry import suite_names

    return suite_names()


ARM = Parameter(
    name=BENCH_ARM.name,
    metavar="SPEC",
    negative="",
    show_default=False,
    allow_leading_hyphen=True,
    help=f"{BENCH_ARM.help}".partition("Without any: ")[0]
    + f"Without any: {', '.join(DEFAULT_ARMS)}.",
)
SUITE = Parameter(
    metavar="NAME",
    help="What to ask; `leeway quality suites` lists all.",
    completer=_suite_names,
)
TASKS = Parameter(
    metavar="N",
    show_default=False,
    help="Ask N tasks only, always the same ones: those whose ids have the least SHA-256.",
)
SAMPLES = Parameter(metavar="N", help="Ask every task N times, each time with a seed of its own.")
DATA_DIR = Parameter(
    metavar="DIR",
    show_default=False,
    help="Folder that holds the suite's file. Without it: an installed package, the cache, or the "
    "authors' page.",
)
OUT = Parameter(
    metavar="DIR",
    show_default=False,
    help="Folder for one line an answer, from which an interrupted run goes on.",
)
SAVE_COMPLETIONS = Parameter(
    negative="",
    show_default=False,
    help="Keep what the answers say in --out too, for `leeway quality rescore`.",
)
ALLOW_UNSANDBOXED = Parameter(
    negative="",
    show_default=False,
    help="Where bubblewrap is missing, run programs that a model wrote as you, with your files and "
    "your network.",
)
MARGIN = Parameter(
    metavar="SHARE", help="Loss that would matter; the test against it stands beside each arm."
)
FOLDER = "A folder that `leeway quality run --out` filled."


@dataclass(frozen=True, slots=True)
class Asked:
    """What to ask, how to score it and where to keep it, as typed."""

    suite: str
    tasks: int | None
    samples: int
    data_dir: Path | None
    out: Path | None
    save_completions: bool
    allow_unsandboxed: bool
    margin: float

    def check(self) -> None:
        """Refuse what makes no sense before anything slow is begun.

        Raises:
            ConfigError: a number is out of range, or a folder is none.
        """
        from leeway.quality.scores import check_margin

        check_margin(self.margin)
        for name, value in (("--tasks", self.tasks), ("--samples", self.samples)):
            if value is not None and value < 1:
                raise ConfigError(f"{name} {value} is out of range; give 1 or more")
        if self.out is not None and self.out.exists() and not self.out.is_dir():
            raise ConfigError(f"--out {str(self.out)!r} is a file; name a folder")
        if self.save_completions and self.out is None:
            raise ConfigError("--save-completions needs a folder to keep them in; give --out DIR")
