"""A run: every arm answers every task, each line is on disk at once, and a kill loses nothing."""

import json
from dataclasses import replace

import pytest
from tests.support.bench_arms import make_arms
from tests.support.quality_runs import IDENTITY, LetterSuite, letter_plan

from leeway.core.errors import ConfigError, SandboxError
from leeway.quality.arms import Answered, EngineArm
from leeway.quality.results import COMPLETIONS, RESULTS, read_info, read_results
from leeway.quality.run import Keeper, Progress, open_folder, run
from leeway.quality.scores import as_json, score_run

ARMS = ["exact=rejection", "soft=typical:delta=0.2"]


def ready(texts=ARMS):
    made = make_arms(texts)
    return [EngineArm(arm) for arm in made], made


def ran(folder, plan_changes=None, *, has_completions=False, texts=ARMS, **told):
    arms, made = ready(texts)
    plan = letter_plan(made, **(plan_changes or {}))
    keeper = open_folder(folder, IDENTITY, "cmd", has_completions=has_completions)
    run(arms, plan, keeper, **told)
    return keeper, plan


def timeless(results):
    """Results without what a clock or a cache says, in order of their keys."""

    def bare(one):
        passing = {"prefill_s": 0.0, "decode_s": 0.0, "num_cached_tokens": 0}
        tally = None if one.tally is None else one.tally | passing
        return replace(one, decode_s=0.0, tally=tally)

    return sorted((bare(one) for one in results), key=lambda one: one.key)


def test_every_arm_answers_every_task_and_sample(tmp_path):
    seen: list[Progress] = []
    keeper, plan = ran(tmp_path / "run", on_progress=seen.append)
    assert {one.key for one in keeper.results} == plan.keys(["exact", "soft"])
    assert read_results(tmp_path / "run") == keeper.results
    assert (seen[0].num_done, seen[-1].num_done, seen[-1].num_wanted) == (0, 16, 16)
    order = [(one.sample, one.arm) for one in seen]
    assert sorted(set(order), key=order.index) == [
        (1, "exact"), (1, "soft"), (2, "exact"), (2, "soft"),
    ]  # fmt: skip
    for one in keeper.results:
        assert one.is_correct == (one.detail == "") and 0 <= one.parts["share"] <= 1
        assert one.finish_reason in ("stop", "length") and one.error is None
    assert not (tmp_path / "run" / COMPLETIONS).exists()


def test_arms_share_the_seed_of_a_task_and_sample(tmp_path):
    keeper, _ = ran(tmp_path / "run", texts=["one=rejection", "same=rejection"])
    by_key = {one.key: one for one in keeper.results}
    for (arm, task, sample), one in by_key.items():
        other = by_key["same" if arm == "one" else "one", task, sample]
        assert (one.seed, one.text_digest) == (other.seed, other.text_digest)
    assert len({one.seed for one in keeper.results}) == 8
    assert len({one.text_digest for one in keeper.results}) >= 4


def test_the_scored_report_does_not_hang_on_saved_completions(tmp_path):
    plain, _ = ran(tmp_path / "plain")
    saved, _ = ran(tmp_path / "saved", has_completions=True)
    reports = [
        json.dumps(as_json(score_run(IDENTITY, keeper.results))) for keeper in (plain, saved)
    ]
    assert reports[0] == reports[1]
    assert timeless(plain.results) == timeless(saved.results)
    text = (tmp_path / "saved" / COMPLETIONS).read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    assert {(one["arm"], one["task_id"], one["sample"]) for one in lines} == {
        one.key for one in saved.results
    }
    for one in lines:
        assert one["solution"] == one["completion"] and one["finish_reason"] in ("stop", "length")
    assert {one["prompt"] for one in lines} == {"abcda", "bcda", "cda", "da"}


class Killed(BaseException):
    """What ends a process, as far as a run can see."""


@pytest.mark.parametrize("after", [1, 5, 11])
def test_a_run_goes_on_answer_by_answer(tmp_path, after):
    whole, _ = ran(tmp_path / "whole")

    def kill(at):
        if at.num_done >= after:
            raise Killed

    with pytest.raises(Killed):
        ran(tmp_path / "run", on_progress=kill)
    path = tmp_path / "run" / RESULTS
    num_before = len(read_results(tmp_path / "run"))
    assert after <= num_before < 16
    path.write_bytes(path.read_bytes() + b'{"schema":1,"arm":"so')  # a line that was cut
    seen: list[Progress] = []
    suite = LetterSuite()
    keeper, _ = ran(tmp_path / "run", {"suite": suite}, on_progress=seen.append)
    assert len(suite.scored) == 16 - num_before
    assert seen[0].num_done_before == num_before and seen[-1].num_done == 16
    assert timeless(keeper.results) == timeless(whole.results)
    assert timeless(read_results(tmp_path / "run")) == timeless(whole.results)
    assert read_info(tmp_path / "run").commands == ("cmd",)


def test_a_run_can_be_extended_by_samples(tmp_path):
    ran(tmp_path / "run", {"num_samples": 1})
    suite = LetterSuite()
    keeper, _ = ran(tmp_path / "run", {"num_samples": 2, "suite": suite})
    assert len(suite.scored) == 8 and len(keeper.results) == 16


class Flaky:
    """An arm whose server is away for a while."""

    name = "exact"

    def __init__(self, inner, num_errors):
        self.inner, self.num_errors = inner, num_errors

    def answers(self, asks):
        for one in self.inner.answers(asks):
            if self.num_errors:
                self.num_errors -= 1
                yield Answered(one.ask, "HTTP 503: busy")
            else:
                yield one


def test_request_errors_are_counted_never_scored_and_asked_again(tmp_path):
    [arm], made = ready(ARMS[:1])
    suite = LetterSuite()
    plan = letter_plan(made, suite, num_samples=1)
    identity = IDENTITY | {"arms": {"exact": "rejection"}}
    keeper = open_folder(tmp_path / "run", identity, "cmd", has_completions=True)
    run([Flaky(arm, 3)], plan, keeper)
    failed = [one for one in keeper.results if one.error is not None]
    assert len(failed) == 3 and len(suite.scored) == 1
    assert {(one.is_correct, one.error) for one in failed} == {(None, "HTTP 503: busy")}
    scored = score_run(identity, keeper.results)
    [summary] = scored.arms
    assert (summary.num_answers, summary.num_errors, summary.strict.num) == (1, 3, 1)
    assert scored.warnings == [
        "arm exact: 3 requests gave no answer and count nowhere; the same command asks them again"
    ]
    again = open_folder(tmp_path / "run", identity, "cmd", has_completions=True)
    run([arm], plan, again)
    assert len(suite.scored) == 4
    assert [one.error for one in read_results(tmp_path / "run")] == [None] * 4


def test_a_broken_sandbox_ends_the_run_and_scores_nothing(tmp_path):
    class Broken(LetterSuite):
        def score(self, task, completion, sandbox):
            raise SandboxError("no more processes")

    with pytest.raises(SandboxError, match="no more processes"):
        ran(tmp_path / "run", {"suite": Broken()})
    assert read_results(tmp_path / "run") == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"model": {"name": "other", "sha256": "m" * 64}}, "model.name was table and is other"),
        ({"source_sha256": "b"}, "source_sha256 was None and is b"),
        ({"batch": 8}, "batch was 4 and is 8; run into another folder"),
    ],
    ids=["model", "code", "batch"],
)
def test_another_run_is_not_mixed_in(tmp_path, change, says):
    ran(tmp_path / "run", {"num_samples": 1})
    before = (tmp_path / "run" / RESULTS).read_bytes()
    with pytest.raises(ConfigError, match=says):
        open_folder(tmp_path / "run", IDENTITY | change, "cmd", has_completions=False)
    assert (tmp_path / "run" / RESULTS).read_bytes() == before


def test_a_folder_that_cannot_be_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError, match=r"--out '.*file/run' cannot be written"):
        open_folder(tmp_path / "file" / "run", IDENTITY, "cmd", has_completions=False)


def test_without_a_folder_results_stay_here():
    arms, made = ready()
    keeper = Keeper(None)
    run(arms, letter_plan(made, num_samples=1), keeper)
    assert len(keeper.results) == 8
