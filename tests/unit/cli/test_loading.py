"""What is said while a model is fetched, and origins in refusals."""

import sys

import pytest

from leeway.cli.call import Screen
from leeway.cli.loading import names_of, naming_origins, progress
from leeway.core.config import resolve
from leeway.core.errors import ContextLengthError, LawError, RequestError


def report(screen):
    with progress(screen) as on_progress:
        for done in (0, 50, 100):
            on_progress("downloading", done, 10**8)
        on_progress("waiting", 0, 0)


def test_without_a_terminal_each_stage_is_one_line(capsys):
    report(Screen())
    assert capsys.readouterr() == ("", "downloading (100 MB)\nwaiting\n")
    report(Screen(is_quiet=True))
    assert capsys.readouterr() == ("", "")


def test_on_a_terminal_it_is_a_bar_that_goes_away(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    screen = Screen()
    assert screen.is_live and not Screen(is_json=True).is_live and not Screen(is_quiet=True).is_live
    report(screen)
    out, err = capsys.readouterr()
    assert out == "" and "downloading" in err and "100.0 MB" in err


def test_nothing_is_drawn_when_nothing_is_fetched(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with progress(Screen()):
        pass
    assert capsys.readouterr() == ("", "")


def test_a_line_says_what_loads_and_gives_way_to_a_bar(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    with progress(Screen(), "some-model and another") as shown:
        assert capsys.readouterr().err == "loading some-model and another ..."
        shown("downloading", 50, 10**8)
        assert capsys.readouterr().err.startswith("\r\x1b[2K")
        shown.close()
        capsys.readouterr()
    assert capsys.readouterr() == ("", "")


def test_a_long_name_is_cut_to_the_terminal_and_a_plain_terminal_gets_none(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("TERM", "xterm")
    with progress(Screen(), "x" * 100):
        assert len(capsys.readouterr().err) == 19
    capsys.readouterr()
    monkeypatch.setenv("TERM", "dumb")
    with progress(Screen(), "x"):
        pass
    assert capsys.readouterr() == ("", "")


def test_without_a_terminal_nothing_is_said_of_loading(capsys):
    with progress(Screen(), "some-model"):
        pass
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ({"model": "a"}, "a"),
        ({"model": "/models/a.gguf", "draft_model": "b/c"}, "a.gguf and c"),
        ({"model": "."}, "."),
    ],
)
def test_names_for_people(flags, names):
    assert names_of(config(**flags)) == names


def config(**flags):
    return resolve(flags, environ={"HOME": "/", "LEEWAY_TOP_P": "0.5"})


@pytest.mark.parametrize(
    ("raised", "origin"),
    [
        (LawError("no", param="law"), "--law"),
        (LawError("no", param="c1"), "--law-option"),
        (LawError("no", param="c2"), "--law"),
        (RequestError("no", param="top_p"), "LEEWAY_TOP_P"),
    ],
)
def test_a_refusal_names_its_origin(raised, origin):
    settings = config(law="clip", law_option=["c1=2"])
    with pytest.raises(type(raised)) as caught, naming_origins(settings):
        raise raised
    assert caught.value.message == f"no (from {origin})"
    assert caught.value.param == raised.param


def test_a_refusal_of_no_setting_stays_as_it_is():
    with pytest.raises(ContextLengthError, match=r"^long$"), naming_origins(config()):
        raise ContextLengthError("long", param="prompt")
