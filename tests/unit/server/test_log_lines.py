"""Log records as JSON lines."""

import io
import json
import logging
import sys

from leeway.server.log_lines import JsonLines, log_to_stderr


def record(message, *args, **more):
    made = logging.LogRecord("leeway", logging.WARNING, "file", 1, message, args, None)
    vars(made).update(more)
    return made


def test_a_line_has_time_level_message_and_the_fields_of_the_record():
    made = record("%s of\n%d", "two\u2028", 3, created=1.5, fields={"n": 1, "rates": {"a": 0.5}})
    line = JsonLines().format(made)
    assert "\n" not in line and line.isascii()
    assert json.loads(line) == {
        "time": "1970-01-01T00:00:01.500+00:00",
        "level": "WARNING",
        "message": "two\u2028 of\n3",
        "n": 1,
        "rates": {"a": 0.5},
    }


def test_an_exception_is_part_of_its_line():
    try:
        raise ZeroDivisionError("why")
    except ZeroDivisionError:
        made = record("failed", exc_info=sys.exc_info())
    line = JsonLines().format(made)
    assert "\n" not in line
    exception = json.loads(line)["exception"]
    assert exception.startswith("Traceback") and exception.endswith("ZeroDivisionError: why")


def test_what_json_does_not_know_is_written_as_text():
    assert json.loads(JsonLines().format(record("a", fields={"x": {1}})))["x"] == "{1}"


def test_loggers_that_the_caller_has_set_up_are_left_alone(monkeypatch):
    stderr, own = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    names = ("leeway", "uvicorn.error")
    loggers = [logging.getLogger(name) for name in names]
    before = [(one.handlers[:], one.level, one.propagate) for one in loggers]
    try:
        for one in loggers:
            one.handlers[:] = []
            one.setLevel(logging.NOTSET)
        loggers[1].addHandler(logging.StreamHandler(own))
        log_to_stderr("json")
        for one in loggers:
            one.info("quiet")
            one.warning("loud")
    finally:
        for one, (handlers, level, propagate) in zip(loggers, before, strict=True):
            one.handlers[:], one.propagate = handlers, propagate
            one.setLevel(level)
    found = [json.loads(line)["message"] for line in stderr.getvalue().splitlines()]
    assert found == ["quiet", "loud"]
    assert own.getvalue() == "loud\n"
