"""Lines on disk: read back as they were, cut ones left out, foreign ones refused."""

import pytest
from tests.support.quality_runs import IDENTITY, failed, result

from leeway.core.errors import ConfigError
from leeway.quality.results import (
    RESULTS,
    RUN,
    append_lines,
    cut_broken_line,
    read_info,
    read_results,
    write_info,
)


def test_lines_come_back_as_they_were(tmp_path):
    lines = [result(task="t0"), result(task="t1", right=False, note="n"), failed(task="t2")]
    append_lines(tmp_path / RESULTS, lines[:1])
    append_lines(tmp_path / RESULTS, lines[1:])
    assert read_results(tmp_path) == lines
    assert [one.is_strictly_correct for one in lines] == [True, False, False]


def test_a_right_answer_that_was_cut_is_not_strictly_right():
    cut = result(finish_reason="length")
    assert cut.is_correct and cut.is_truncated and not cut.is_strictly_correct


def test_the_last_line_of_an_answer_counts(tmp_path):
    append_lines(tmp_path / RESULTS, [failed(), result(task="t1"), result()])
    assert read_results(tmp_path) == [result(task="t1"), result()]


def test_what_a_kill_cut_off_is_left_out_and_taken_away(tmp_path):
    path = tmp_path / RESULTS
    append_lines(path, [result(), result(task="t1")])
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:100])
    assert len(read_results(tmp_path)) == 2
    cut_broken_line(path)
    assert path.read_bytes() == whole
    cut_broken_line(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_other_lines_are_refused(tmp_path):
    (tmp_path / RESULTS).write_text('{"arm": 3}\n')
    with pytest.raises(ConfigError, match=r"results.jsonl, line 1: not a line of a quality run"):
        read_results(tmp_path)
    (tmp_path / RESULTS).unlink()
    append_lines(tmp_path / RESULTS, [result(schema=99)])
    with pytest.raises(ConfigError, match="has the form 99 and this version writes 1"):
        read_results(tmp_path)


def test_what_a_run_is(tmp_path):
    assert read_info(tmp_path) is None and read_results(tmp_path) == []
    write_info(tmp_path, IDENTITY, ["leeway quality run"])
    info = read_info(tmp_path)
    assert info.identity == IDENTITY and info.commands == ("leeway quality run",)
    (tmp_path / RUN).write_text("{}")
    with pytest.raises(ConfigError, match="is not of a quality run"):
        read_info(tmp_path)
