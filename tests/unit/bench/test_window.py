"""Windows in files: nothing is lost, and what is no window is refused."""

import json

import pytest
from tests.support.bench_arms import make_arms, make_plan

from leeway.bench.interleaved import measure
from leeway.bench.window import (
    SUFFIX,
    read_windows,
    tally_from_json,
    tally_to_json,
    write_window,
)
from leeway.core.errors import ConfigError
from leeway.core.receipt import Tally


@pytest.fixture
def windows():
    arms = make_arms(["plain", "typical:delta=0.3@draft_model:2"])
    return list(measure(arms, make_plan(num_seeds=1), {"model": "table"}, folder=None))


def test_a_window_comes_back_as_it_was(tmp_path, windows):
    for window in windows:
        write_window(tmp_path, 1, window)
    assert read_windows(tmp_path) == windows
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names[0] == "a01-plain-p000-s1-r1" + SUFFIX
    assert names[2] == "a01-typical-delta-0.3-draft_model-2-p000-s1-r1" + SUFFIX


def test_a_window_says_what_ran(windows):
    plain, typical = sorted(windows[:2], key=lambda one: one.arm != "plain")
    assert plain.receipt["law"] == "rejection" and plain.receipt["drafter"] == "none"
    assert typical.receipt["law"] == "typical" and typical.receipt["options"]["delta"] == 0.3
    assert typical.receipt["drafter"] == "draft_model" and typical.void is None
    assert plain.request_digest == typical.request_digest
    assert plain.output_digest != typical.output_digest
    assert (plain.output_tokens, plain.prompt_tokens, plain.finish_reason) == (12, 3, "length")
    assert plain.wall_s == plain.ttft_s + plain.decode_s == 12 * 8.25
    assert len(plain.steps["target"]) == len(plain.steps["num_drafted"]) == 11
    drafted, accepted = typical.steps["num_drafted"], typical.steps["num_accepted"]
    assert sum(drafted) == typical.tally["num_draft_tokens"] > 0
    assert sum(accepted) == typical.tally["num_accepted_tokens"] > 0


def test_a_window_of_before_is_read(tmp_path, windows):
    path = write_window(tmp_path, 0, windows[0])
    old = json.loads(path.read_text())
    for name in ("kv_bytes", "kv_cache_bytes", "cpu_mhz", "command"):
        del old[name]
    path.write_text(json.dumps(old))
    [found] = read_windows(tmp_path)
    assert (found.kv_bytes, found.kv_cache_bytes, found.cpu_mhz, found.command) == (None,) * 4


def test_the_command_is_kept():
    arms = make_arms(["plain"])
    plan = make_plan(num_seeds=1)
    windows = measure(arms, plan, {}, folder=None, command="leeway bench run -a plain")
    assert {one.command for one in windows} == {"leeway bench run -a plain"}


def test_tallies_come_back_through_json():
    tally = Tally(num_decided=3, draft_tv_by_depth=[0.5, 0.25], decided_by_depth=[2, 1])
    tally.add_step(3, 1)
    tally.add_step(3, 1)
    tally.add_step(0, 0)
    assert tally_from_json(json.loads(json.dumps(tally_to_json(tally)))) == tally


def test_a_file_that_is_no_window_is_refused_by_name(tmp_path, windows):
    path = write_window(tmp_path, 0, windows[0])
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ConfigError, match=path.name):
        read_windows(tmp_path)
    path.write_bytes(whole.replace(b'"schema":1', b'"schema":99'))
    with pytest.raises(ConfigError, match="has the form 99 and this version writes 1"):
        read_windows(tmp_path)


def test_what_was_being_written_when_the_process_ended_is_not_read(tmp_path, windows):
    path = write_window(tmp_path, 0, windows[0])
    path.with_suffix(".part").write_bytes(b"{")
    assert read_windows(tmp_path) == [windows[0]]
