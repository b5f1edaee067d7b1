"""The scored report: order, warnings, JSON, refusals."""

import json

import pytest
from tests.support.quality_runs import IDENTITY, failed, result

from leeway.core.errors import ConfigError
from leeway.quality.results import RESULTS, append_lines, write_info
from leeway.quality.scores import as_json, check_margin, score_folder, score_run

NOT_IDLE = {"law": "rejection", "options": {}, "guarantee": "exact_distribution", "drafter": "x"}
LOSSY = NOT_IDLE | {"law": "typical", "guarantee": "none"}


def results(**changes):
    both = []
    for task in ("t0", "t1", "t2"):
        both.append(result("exact", task))
        both.append(result("soft", task, right=task != "t0", receipt=LOSSY, **changes))
    return both


def test_the_first_arm_stands_first_and_the_others_beside_it():
    scored = score_run(IDENTITY, results(), margin=0.05)
    assert [one.name for one in scored.arms] == ["exact", "soft"]
    [pair] = scored.pairs
    assert (pair.name, pair.first, pair.comparison.only_first) == ("soft", "exact", 1)
    assert pair.comparison.margin == 0.05
    assert (scored.num_tasks, scored.num_samples, scored.warnings) == (3, 1, [])
    assert scored.subset == "3 of 100 tasks, those whose ids have the least SHA-256"


def test_json_holds_everything_and_no_time():
    report = as_json(score_run(IDENTITY, results()))
    slower = as_json(score_run(IDENTITY, results(decode_s=99.0)))
    assert json.dumps(report) == json.dumps(slower)
    assert report["arms"][0]["strict"]["value"] == 1.0
    [pair] = report["comparisons"]
    assert pair["arm"] == "soft" and pair["detectable_loss"] is None and pair["margin"] == 0.03
    assert {"p_value", "interval", "discordance", "is_within_margin"} <= pair.keys()
    json.loads(json.dumps(report, allow_nan=False))


def test_what_must_be_known_is_said():
    identity = IDENTITY | {"suite": IDENTITY["suite"] | {"is_known": False}}
    lines = [*results(void="law x ran", note="a note"), failed("soft", "t3"), result("exact", "t3"),
             result("exact", "t4")]  # fmt: skip
    found = score_run(identity, lines).warnings
    assert found == [
        "the data of letters is not the file that published figures rest on (SHA-256 "
        "dddddddddddd...)",
        "1 results count in no table: other arms have none at their tasks",
        "arm soft: 1 requests gave no answer and count nowhere; the same command asks them again",
        "arm soft is void: law x ran",
        "arm soft: a note",
    ]


def test_greedy_arms_that_must_agree_and_do_not_are_named():
    greedy = IDENTITY | {"sampling": IDENTITY["sampling"] | {"temperature": 0.0}}
    lines = [
        result("exact", "t0"), result("soft", "t0", text="other"),
        result("exact", "t1"), result("soft", "t1"),
    ]  # fmt: skip
    [warning] = score_run(greedy, lines).warnings
    assert warning.startswith("at temperature 0 arm soft said something else than exact at 1 of 2")
    assert score_run(IDENTITY, lines).warnings == []
    lossy = [one if one.arm == "exact" else result("soft", one.task_id, text="o", receipt=LOSSY)
             for one in lines]  # fmt: skip
    assert score_run(greedy, lossy).warnings == []


def test_a_folder_is_scored(tmp_path):
    with pytest.raises(ConfigError, match="holds no quality run; name a folder that"):
        score_folder(tmp_path)
    write_info(tmp_path, IDENTITY, ["cmd"])
    with pytest.raises(ConfigError, match="holds no task that every arm was asked"):
        score_folder(tmp_path)
    append_lines(tmp_path / RESULTS, results())
    assert score_folder(tmp_path).num_tasks == 3
    assert score_run(IDENTITY, []) is None


@pytest.mark.parametrize("margin", [0.0, 1.0, -0.03, 3.0])
def test_a_margin_is_a_share(margin):
    with pytest.raises(ConfigError, match=r"--margin .* is out of range; give a loss as a share"):
        check_margin(margin)
