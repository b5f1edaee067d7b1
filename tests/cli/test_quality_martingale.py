"""`quality martingale` from words to a verdict, on a tiny model."""

import json
from dataclasses import replace

import pytest
from tests.support.tiny_models import write_tiny_gguf

from leeway.cli.quality_martingale import _Found, _verdict
from leeway.core.receipt import Receipt, Tally
from leeway.quality.loss_meter import Losses
from leeway.quality.martingale import MartingaleTest, UniformityTest

BARE = ["quality", "martingale", "-n", "24", "--max-num-seqs", "4"]
TEST = [*BARE, "--tokens", "300"]


@pytest.fixture
def prompts(tmp_path):
    path = tmp_path / "prompts.jsonl"
    lines = [{"prompt": "hello world"}, {"question": "what is rain"}, {"prompt": "ab ab ab ab"}]
    path.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    return str(path)


def report(leeway, *words):
    outcome = leeway(*TEST, *words, "--json")
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    """Flags of a draft model of other random weights: a poor drafter, so that a law matters."""
    path = tmp_path_factory.mktemp("draft") / "foreign.gguf"
    write_tiny_gguf(path, seed=9)
    return ["--drafter", "draft_model", "--draft-model", str(path)]


def test_the_exact_law_is_not_rejected(on_tiny, prompts, foreign):
    found = report(on_tiny, "--prompts", prompts, *foreign, "--top-k", "20")
    assert (found["guarantee"], found["drafter"]) == ("exact_distribution", "draft_model")
    test = found["martingale"]
    assert test["num_tokens"] == found["counts"]["output_tokens"] >= 300
    assert test["num_outside"] == 0 and found["counts"]["accepted"] > 0
    assert abs(test["z"]) < 2.58 and not found["rejects"]
    assert test["interval"][0] < test["bias"] < test["interval"][1]
    assert found["verdict"].startswith("not rejected at 1 %")
    assert found["pit"]["num_bins"] == 50 and found["pit"]["p_value"] > 1e-3


def test_a_lossy_law_is_rejected_with_the_side_it_errs_on(on_tiny, prompts, foreign):
    words = ["--law", "tv_budget", "--law-option", "budget=0.9"]
    found = report(on_tiny, "--prompts", prompts, *foreign, *words)
    assert found["guarantee"] == "none" and found["options"]["budget"] == 0.9
    test = found["martingale"]
    assert found["rejects"] and test["z"] < -2.58 and test["bias"] < 0
    assert test["clustered"]["z"] < -2.58
    loss = found["loss"]
    assert 0 < loss["total_variation_mean"] < loss["p99"] and 0 < loss["high_rate"] <= 1
    assert all(0 < rate <= 1 for rate in found["distinct"])
    assert "rejected at 1 %: less likely than the target's own text by" in found["verdict"]


def test_tokens_that_the_target_cannot_give_are_told(on_tiny, prompts, foreign):
    words = ["--law", "tv_budget", "--law-option", "budget=0.9", "--top-k", "5"]
    outcome = on_tiny(*TEST, "--prompts", prompts, *foreign, *words)
    [line] = [line for line in outcome.out.splitlines() if line.startswith("outside")]
    assert "tokens have no probability in the target's row" in line and int(line.split()[1]) > 0


def test_the_same_seed_gives_the_same_report_and_another_another(on_tiny, prompts):
    one, again, other = (
        report(on_tiny, "--prompts", prompts, *more)["martingale"]
        for more in ([], ["--seed", "0"], ["--seed", "50"])
    )
    assert one == again != other


def test_people_read_lines(on_tiny):
    outcome = on_tiny(*TEST, "--drafter", "none")
    assert outcome.code == 0
    heads = [line.split("  ")[0] for line in outcome.out.splitlines() if "  " in line]
    assert heads == [
        "model", "law", "sampler", "decoded", "distinct", "bias", "z", "by answer", "PIT",
        "verdict",
    ]  # fmt: skip
    assert "decoding: 300 tokens ..." in outcome.err
    assert "feeding the answers to the target: " in outcome.err
    quiet = on_tiny(*TEST, "--drafter", "none", "--quiet")
    assert quiet.err == "" and "detectable:" not in quiet.out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--temperature", "0"], "temperature 0 leaves no chance"),
        (["--tokens", "0"], "--tokens 0 is out of range; give 1 or more"),
        (["--prompts", "nowhere.jsonl"], "'nowhere.jsonl' cannot be read"),
        (["--top-k", "1", "--tokens", "20"], "the target's rows leave nothing to chance"),
    ],
    ids=["greedy", "no-tokens", "no-file", "one-token-rows"],
)
def test_what_cannot_be_tested_is_refused(on_tiny, words, complaint):
    outcome = on_tiny(*BARE, *words)
    assert outcome.code == 2 and complaint in outcome.err and outcome.out == ""


SEEN_NOTHING = MartingaleTest(20, 900, 0, 0.3, 0.76, 0.01, (-0.02, 0.04), 0.05, None)
LIKELIER = replace(SEEN_NOTHING, z=4.0, p_value=6e-5, bias=0.125)
WITH_OUTSIDE = replace(SEEN_NOTHING, num_outside=7)
EVEN, UNEVEN = (UniformityTest(900, 50, 49.0, p_value) for p_value in (0.4, 1e-7))


@pytest.mark.parametrize(
    ("test", "pit", "begin"),
    [
        (SEEN_NOTHING, EVEN, "not rejected at 1 %: nothing seen"),
        (SEEN_NOTHING, None, "not rejected at 1 %: nothing seen"),
        (SEEN_NOTHING, UNEVEN, "not rejected at 1 % by log p, but by PIT (p = 1e-07): tokens lie"),
        (WITH_OUTSIDE, EVEN, "not rejected at 1 %, but 7 tokens without probability"),
        (LIKELIER, EVEN, "rejected at 1 %: likelier than the target's own text by 0.1250 nats"),
        (LIKELIER, UNEVEN, "rejected at 1 %: likelier"),
    ],
    ids=["nothing", "no-pit", "pit", "outside", "likelier", "both"],
)
@pytest.mark.parametrize("guarantee", ["exact_distribution", "none"])
def test_the_verdict_leaves_out_nothing_that_was_seen(test, pit, begin, guarantee):
    """In particular it never says that nothing was seen beside a PIT that saw something."""
    receipt = Receipt("x", {}, guarantee, "token", "mtp", 3, 0, 1.0, Tally(), ())
    verdict = _verdict(_Found(receipt, Tally(), 0, test, pit, Losses(), (None,) * 3))
    assert verdict.startswith(begin)
    has_seen = test.rejects or pit is UNEVEN
    assert ("a fault, or one seed in a hundred" in verdict) == (
        has_seen and guarantee == "exact_distribution"
    )
    assert ("promise" in verdict) == (has_seen == (guarantee == "exact_distribution"))
