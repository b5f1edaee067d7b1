"""The entry point: finds the verb, prints errors as one message, gives the exit code."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from typing import Annotated

from cyclopts import App, CycloptsError, Group, Parameter
from cyclopts.exceptions import UnknownCommandError, UnusedCliTokensError

from leeway.cli.bench import app as bench
from leeway.cli.call import Call
from leeway.cli.chat import chat
from leeway.cli.config import app as config
from leeway.cli.demo import demo
from leeway.cli.doctor import doctor
from leeway.cli.explain import explain
from leeway.cli.generate import generate
from leeway.cli.heads import app as heads
from leeway.cli.laws import laws
from leeway.cli.models import app as models
from leeway.cli.options import GLOBAL_PANEL, Verb, switch
from leeway.cli.quality import app as quality
from leeway.cli.serve import serve
from leeway.cli.tune import tune
from leeway.cli.version import version
from leeway.core.errors import LeewayError, did_you_mean

OK, FAILURE, MISTAKE, INTERRUPTED = 0, 1, 2, 130
_GLOBAL_FLAGS = ("--config", "--json", "--quiet", "--no-color", "--help", "--version")
_CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_CONFIG = Parameter(
    name="--config",
    group=GLOBAL_PANEL,
    metavar="PATH",
    show_default=False,
    help="Configuration file (default ./leeway.toml, else leeway/config.toml in the user's "
    "configuration folder; env LEEWAY_CONFIG)",
)
_VERBS: dict[str, App | Verb] = {
    "serve": serve,
    "generate": generate,
    "chat": chat,
    "laws": laws,
    "explain": explain,
    "models": models,
    "heads": heads,
    "demo": demo,
    "tune": tune,
    "bench": bench,
    "quality": quality,
    "doctor": doctor,
    "config": config,
    "version": version,
}


def build_app() -> App:
    """Return the application; a verb imports the engine only when it runs."""
    app = App(
        name="leeway",
        help="Speculative decoding with the acceptance law as a dial.",
        help_format="markdown",
        help_flags=["--help", "-h"],
        version_flags=[],
        group_commands=Group("Verbs", sort_key=0),
        result_action="return_value",
        suppress_keyboard_interrupt=False,
        exit_on_error=False,
        print_error=False,
    )
    for order, (name, verb) in enumerate(_VERBS.items()):
        app.command(verb, name=name)
        app[name].sort_key = order
    app.command(version, name="--version", group=GLOBAL_PANEL)
    app.register_install_completion_command(add_to_startup=False)
    app["--install-completion"].group = (GLOBAL_PANEL,)

    app.meta.suppress_keyboard_interrupt = False

    @app.meta.default
    def launch(
        *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
        config_path: Annotated[str | None, _CONFIG] = None,
        json: Annotated[bool, switch("json")] = False,
        quiet: Annotated[bool, switch("quiet")] = False,
        no_color: Annotated[bool, switch("no_color")] = False,
    ) -> int:
        verb, bound, ignored = app.parse_args(tokens, exit_on_error=False, print_error=False)
        context: dict[str, Call] = {}
        if "call" in ignored:
            flags = {"json": json, "quiet": quiet, "no_color": no_color}
            typed = {name: True for name, is_given in flags.items() if is_given}
            context["call"] = Call(typed, config_path, tokens)
        code = verb(*bound.args, **bound.kwargs, **context)
        return code if isinstance(code, int) else OK

    return app


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _run(words)
        print(end="", flush=True)  # a full disk is to be met here, not when Python shuts down
    except BrokenPipeError:
        _abandon_stdout()
        return FAILURE
    except OSError as error:
        if error.filename is not None or error.errno not in _CANNOT_WRITE:
            raise
        _abandon_stdout()
        reason = os.strerror(error.errno)
        return _fail(f"cannot write standard output: {reason}; send it elsewhere", FAILURE)
    return code


def _run(words: Sequence[str]) -> int:
    try:
        return int(build_app().meta(words, exit_on_error=False, print_error=False) or OK)
    except LeewayError as error:
        return _fail(error.message, error.exit_code)
    except CycloptsError as error:
        return _fail(_describe(error), MISTAKE)
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return INTERRUPTED


def _abandon_stdout() -> None:
    """Let what is still buffered go nowhere, so that shutting down does not fail on it again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _describe(error: CycloptsError) -> str:
    """Return the parser's complaint with what is allowed and the next step."""
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        word = error.unused_tokens[0]
        hint = did_you_mean(word, [*_VERBS, "list", "pull", "inspect", "train", "show"])
        return f"unexpected argument {word!r}{hint}; `--help` behind the verb shows what fits"
    if isinstance(error, UnknownCommandError) and error.unused_tokens:
        word = error.unused_tokens[0]
        above = " ".join(error.command_chain or ())
        verb = _VERBS.get(above)
        known = verb if isinstance(verb, App) else _VERBS
        kind = "flag" if word.startswith("-") else "verb"
        hint = did_you_mean(word, known if kind == "verb" else _GLOBAL_FLAGS)
        return f"unknown {kind} {word!r}{hint}; `{f'leeway {above}'.strip()} --help` lists all"
    return str(error)


def _fail(message: str, exit_code: int) -> int:
    print(f"error: {message}", file=sys.stderr)
    return exit_code
