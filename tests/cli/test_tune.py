"""`leeway tune` on a tiny model, on a clock that only forwards move: what it says and writes."""

import hashlib
import json
import os
import sys
from pathlib import Path

import pytest
from tests.support.tiny_heads import tiny_head_spec, write_tiny_head
from tests.support.tiny_models import tiny_spec

from leeway.backends.openvino.backend import OpenVINOBackend

FILE = "# mine\nport = 8001 # kept\nnum_speculative_tokens = 4 # was good\n"
WORDS = ("--temperature", "0", "-n", "12", "--max-depth", "2", "--seeds", "3")
SHORT = ("tune", *WORDS, "--prompts", "prompts.jsonl")


class Clock:
    def __init__(self):
        self.seconds = 0.0

    def perf_counter(self):
        return self.seconds


@pytest.fixture
def priced(on_tiny, tiny, monkeypatch):
    """The command line with the tiny model as its own draft model, on a clock of set prices.

    A forward of the target takes 1 s and each further row `row_s`, one of the draft model 0.1 s,
    one of a draft head nothing.
    """
    clock = Clock()
    loaded = []
    build, forward = OpenVINOBackend.__init__, OpenVINOBackend.forward

    def note(self, *args, **options):
        loaded.append(self)
        build(self, *args, **options)

    def timed(self, inputs):
        is_target = loaded.index(self) % 2 == 0 or not os.environ.get("LEEWAY_DRAFT_MODEL")
        num_rows = sum(one.num_logit_rows for one in inputs)
        clock.seconds += 1.0 + clock.row_s * (num_rows - 1) if is_target else 0.1
        return forward(self, inputs)

    monkeypatch.setattr(OpenVINOBackend, "__init__", note)
    monkeypatch.setattr(OpenVINOBackend, "forward", timed)
    monkeypatch.setattr("leeway.engine.engine.time", clock)
    monkeypatch.setattr("leeway.bench.machine.os.getloadavg", lambda: (0.0, 0.0, 0.0))
    monkeypatch.setenv("LEEWAY_DRAFT_MODEL", tiny)
    lines = [json.dumps({"prompt": text}) for text in ("hello hello world", "world hello")]
    (on_tiny.folder / "prompts.jsonl").write_text("\n".join(lines))
    clock.row_s = 0.05
    on_tiny.clock = clock
    return on_tiny


def test_the_winner_is_written_and_comments_stay(priced):
    path = priced.folder / "leeway.toml"
    path.write_text(FILE)
    outcome = priced(*SHORT)
    assert outcome.code == 0, outcome.err
    assert outcome.err == ""
    assert "Fastest: depth 2" in outcome.out and "Written to leeway.toml:" in outcome.out
    assert "num_speculative_tokens = 2" in outcome.out
    assert path.read_text() == (
        "# mine\nport = 8001 # kept\nnum_speculative_tokens = 2 # was good\n"
        'draft_length = "fixed"\ndraft_cost = 0.15\n'
    )
    assert "measured with LEEWAY_MODEL" in " ".join(outcome.out.split())
    shown = json.loads(priced("config", "show", "--json").out)["settings"]
    assert shown["draft_cost"]["value"] == 0.15
    assert shown["num_speculative_tokens"]["origin"] == "leeway.toml: num_speculative_tokens"


def test_without_a_file_one_is_made_and_a_named_one_is_used(priced):
    assert priced(*SHORT).code == 0
    assert 'draft_length = "fixed"' in (priced.folder / "leeway.toml").read_text()
    other = priced.folder / "other.toml"
    table = '[law_option]\ndelta = 0.3\noff_set = "coin"\n'
    other.write_text(f'law = "typical"\n{table}')
    report = json.loads(priced(*SHORT, "--config", "other.toml", "--json").out)
    assert (report["law"], report["requested_law"]) == ("greedy_match", "typical")
    assert other.read_text() == (
        'law = "typical"\nnum_speculative_tokens = 2\ndraft_length = "fixed"\n'
        f"draft_cost = 0.15\n{table}"
    )


def test_nothing_is_saved_where_nothing_beats_plain_decoding(priced):
    priced.clock.row_s = 2.0
    path = priced.folder / "leeway.toml"
    path.write_text(FILE)
    outcome = priced(*SHORT)
    assert outcome.code == 0
    assert "Nothing beat plain decoding; nothing saved." in outcome.out
    assert path.read_text() == FILE
    report = json.loads(priced(*SHORT, "--json").out)
    assert (report["winner"], report["settings"], report["saved_to"]) == (None, {}, None)
    assert report["draft_cost"] == pytest.approx(2.1)


def test_a_dry_run_writes_nothing(priced):
    outcome = priced(*SHORT, "--dry-run")
    assert "Would be written to leeway.toml:" in outcome.out
    report = json.loads(priced(*SHORT, "--dry-run", "--json").out)
    assert report["winner"] == "depth 2" and report["saved_to"] is None
    assert report["settings"] == {
        "num_speculative_tokens": 2,
        "draft_length": "fixed",
        "draft_cost": 0.15,
    }
    assert not (priced.folder / "leeway.toml").exists()


def test_the_report_holds_every_arm(priced):
    report = json.loads(priced(*SHORT, "--json").out)
    arms = report["arms"]
    assert [arm["name"] for arm in arms] == ["plain", "depth 1", "depth 2", "adaptive"]
    assert [arm["num_speculative_tokens"] for arm in arms] == [0, 1, 2, 2]
    for arm in arms[1:]:
        assert arm["plain_ratio"]["num_clusters"] == len(arm["tokens_per_s_by_seed"]) == 3
        assert arm["drafted_by_depth"][0] > 0 and arm["is_faster_than_plain"]
        assert arm["loss"]["total_variation_mean"] == 0
    assert arms[0]["tokens_per_s"]["median"] == pytest.approx(1.0)
    assert report["law"] == "rejection" and report["drafter"] == "draft_model"
    assert report["saved_to"] == "leeway.toml" and report["is_busy"] is False
    assert {"x plain", "draft_cost"} <= report["definitions"].keys()


def test_a_busy_machine_and_a_variable_that_beats_the_file_are_said(priced, monkeypatch):
    monkeypatch.setattr("leeway.bench.machine.os.getloadavg", lambda: (99.0, 9.0, 9.0))
    monkeypatch.setenv("LEEWAY_DRAFT_COST", "0.3")
    text = " ".join(priced(*SHORT).out.split())
    assert "The machine was busy (load 99.0 before" in text
    assert "Note: LEEWAY_DRAFT_COST is set and beats the file" in text


def test_a_bar_is_drawn_on_a_terminal_only(priced, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    outcome = priced(*SHORT)
    assert outcome.code == 0 and "measuring" in outcome.err
    assert priced(*SHORT, "--quiet").err == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--num-speculative-tokens", "3"], "--num-speculative-tokens is what tune chooses"),
        (["--draft-length", "adaptive"], "--draft-length is what tune chooses"),
        (["--seed", "3"], "--seed does nothing here"),
        (["--prefix-cache", "on"], "--prefix-cache on does nothing here"),
        (["--max-depth", "0"], "--max-depth 0 is out of range"),
        (["--seeds", "2"], "--seeds 2 is too few"),
        (["--prompts", "missing.jsonl"], "'missing.jsonl' cannot be read"),
    ],
)
def test_what_makes_no_sense_is_refused(leeway, words, said):
    outcome = leeway("tune", *words)
    assert outcome.code == 2 and said in outcome.err


def test_no_drafter_is_refused_with_its_origin(leeway):
    outcome = leeway("tune", "--drafter", "none")
    assert outcome.code == 2
    assert "drafter 'none' (from --drafter) leaves nothing to tune" in outcome.err


def test_a_draft_head_is_tuned_beyond_its_trained_depth(priced, tiny, monkeypatch):
    monkeypatch.delenv("LEEWAY_DRAFT_MODEL")
    digest = hashlib.sha256(Path(tiny).read_bytes()).hexdigest()
    spec = tiny_head_spec(target=tiny_spec(), num_draft_tokens=100, target_sha256=digest)
    write_tiny_head(priced.folder / "mine.safetensors", spec)
    words = ("tune", "-n", "24", "--seeds", "3", "--prompts", "prompts.jsonl", "--dry-run")
    report = json.loads(priced(*words, "--head", "mine.safetensors", "--json").out)
    assert report["drafter"] == "mtp" and spec.depth == 3
    arms = {arm["name"]: arm for arm in report["arms"]}
    assert len(arms) == 7 and len(arms["depth 5"]["drafted_by_depth"]) == 5
    assert report["draft_cost"] == pytest.approx(0.05)
