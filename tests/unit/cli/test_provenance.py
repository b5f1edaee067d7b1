"""Printing text by where its tokens came from."""

import io

from rich.console import Console

from leeway.cli.provenance import print_legend, print_runs
from leeway.core.types import Provenance

A, R, B = Provenance.ACCEPTED, Provenance.RECOVERED, Provenance.BONUS


def printed(runs, **console):
    stream = io.StringIO()
    print_runs(Console(file=stream, markup=False, highlight=False, **console), runs)
    return stream.getvalue()


def test_marks_in_a_pipe():
    assert printed([("ab", A), ("[c]", R), ("d ", B)]) == "[ab]{[c]}d "


def test_marks_on_a_terminal_differ_without_colour():
    codes = printed([("ab", A), ("c", R), ("d", B)], force_terminal=True, no_color=True)
    assert codes == "\x1b[4mab\x1b[0m\x1b[1mc\x1b[0md"


def test_legend():
    stream = io.StringIO()
    print_legend(Console(file=stream, markup=False))
    assert stream.getvalue().startswith("[accepted] {recovered} bonus")
    stream = io.StringIO()
    print_legend(Console(file=stream, force_terminal=True, no_color=True))
    assert "\x1b[4maccepted\x1b[0m" in stream.getvalue()
