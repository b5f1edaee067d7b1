"""The grammar of arms: every part, its defaults, and what is refused."""

from dataclasses import replace

import pytest

from leeway.bench.arm_spec import ArmSpec, parse_arms
from leeway.core.config import EngineConfig
from leeway.core.errors import ConfigError, LawError
from leeway.core.limits import NO_LIMITS, Limits
from leeway.core.types import Acceptance

CONFIG = EngineConfig(drafter="ngram", num_speculative_tokens=4)


def parse(text, config=CONFIG):
    [arm] = parse_arms([text], config)
    return arm


def test_plain_is_fast_and_drafts_nothing():
    assert parse("plain") == ArmSpec("plain", Acceptance(), "none", 0, "fixed", "fast")
    assert parse("slow=plain/stable") == ArmSpec("slow", Acceptance(), "none", 0, "fixed", "stable")


@pytest.mark.parametrize(
    ("text", "name", "law", "options", "drafter", "depth", "length", "row_shape"),
    [
        ("rejection", "rejection", "rejection", {}, "ngram", 4, "fixed", "stable"),
        ("a=block@mtp:2", "a", "block", {}, "mtp", 2, "fixed", "stable"),
        ("block@mtp", "block@mtp", "block", {}, "mtp", 4, "fixed", "stable"),
        ("a=rejection@mtp:5:adaptive/fast", "a", "rejection", {}, "mtp", 5, "adaptive", "fast"),
        ("a=rejection@none", "a", "rejection", {}, "none", 0, "fixed", "stable"),
        ("a=rejection@ngram:0", "a", "rejection", {}, "none", 0, "fixed", "stable"),
        (
            "soft=typical:delta=0.2,off_set=coin@ngram:3",
            "soft",
            "typical",
            {"delta": 0.2, "off_set": "coin"},
            "ngram",
            3,
            "fixed",
            "stable",
        ),
        (
            "tv_budget:budget=0.05",
            "tv_budget:budget=0.05",
            "tv_budget",
            {"budget": 0.05},
            "ngram",
            4,
            "fixed",
            "stable",
        ),
        ("a=medusa@draft_model:1", "a", "medusa", {}, "draft_model", 1, "fixed", "stable"),
    ],
)
def test_every_part(text, name, law, options, drafter, depth, length, row_shape):
    scale = 1.0 if drafter in {"none", "ngram"} else 0.8
    expected = ArmSpec(name, Acceptance(law, options), drafter, depth, length, row_shape, scale)
    assert parse(text) == expected


def test_arms_differ_in_draft_temperature():
    config = EngineConfig(drafter="mtp", draft_temperature=0.8)
    arms = parse_arms(
        [
            "rejection",
            "a=rejection@mtp:3:adaptive,draft_temperature=0.5/fast",
            "b=typical:delta=0.2@draft_model,draft_temperature=0",
            "c=rejection@ngram:3",
            "plain",
        ],
        config,
    )
    assert [arm.draft_temperature for arm in arms] == [0.8, 0.5, 0.0, 1.0, 1.0]
    assert arms[1].text == "rejection@mtp:3:adaptive,draft_temperature=0.5/fast"
    assert arms[1].num_speculative_tokens == 3 and arms[1].draft_length == "adaptive"
    assert [parse(arm.text).draft_temperature for arm in arms] == [0.8, 0.5, 0.0, 1.0, 1.0]


def test_what_an_arm_leaves_open_is_the_configurations():
    config = EngineConfig(drafter="mtp", num_speculative_tokens=2, draft_length="adaptive")
    arm = parse("rejection", config)
    assert (arm.drafter, arm.num_speculative_tokens, arm.draft_length) == ("mtp", 2, "adaptive")


def test_hard_support_is_a_limit_among_the_options():
    arm = parse("tv_budget:hard_support=true,budget=0.1@mtp:3")
    assert arm.acceptance == Acceptance("tv_budget", {"budget": 0.1})
    assert arm.limits == Limits(hard_support=True)
    assert arm.text.startswith("tv_budget:budget=0.1,hard_support=true@mtp:3")
    assert parse("tv_budget:hard_support=false,budget=0.1").limits == NO_LIMITS
    assert parse("opt:hard_support=true,alpha=0@mtp:1").limits.hard_support


@pytest.mark.parametrize(
    "text",
    [
        "tv_budget:budget=0.1,hard_support=true@mtp:3",
        "typical:delta=0.2,off_set=coin@ngram:3",
        "block@mtp:5:adaptive/fast",
        "block@mtp_ngram:5,draft_temperature=0.25",
    ],
)
def test_the_whole_definition_says_the_same(text):
    arm = parse(text)
    assert replace(parse(arm.text), name=arm.name) == arm
    assert parse("plain").text == "rejection@none:0:fixed/fast"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not an arm; write [NAME=]LAW"),
        ("a b=rejection", "has the name 'a b'"),
        ("rejection@", "is not an arm"),
        ("rejection@ngram:3:adaptive:1", "is not an arm"),
        ("rejection@ngrams:3", "'ngrams'; did you mean 'ngram'?; allowed: "),
        ("opt:hard_support=yes@mtp", "has the hard_support 'yes'; allowed: true, false"),
        ("rejection@ngram:three", "has a depth that is not an integer"),
        ("rejection@ngram:33", "has a depth that is out of range"),
        ("rejection@ngram:3:flexible", "has the draft length 'flexible'"),
        ("rejection@none:3", "drafts 3 tokens with no drafter"),
        ("rejection/quick", "has the row shape 'quick'; allowed: stable, fast"),
        ("typical:delta", "holds 'delta', which is not key=value"),
        ("typical:delta=0.2,delta=0.3", "gives 'delta' twice"),
        ("rejection@mtp:3,draft_temperature=1e-9", "has a draft_temperature that is out of range"),
        ("rejection@mtp:3,draft_temperature=", "is not an arm"),
        ("rejection@mtp:3,depth=2", "is not an arm"),
        ("rejection@ngram:3,draft_temperature=0.5", "ngram drafts, which are not drawn"),
        ("rejection@mtp:0,draft_temperature=0.5", "none drafts, which are not drawn"),
        ("plain@ngram:3", "gives plain decoding drafter"),
        ("plain:delta=0.2", "gives plain decoding options"),
    ],
)
def test_what_is_no_arm_is_refused(text, says):
    with pytest.raises(ConfigError) as caught:
        parse(text)
    assert says in caught.value.message and repr(text) in caught.value.message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("typcal:delta=0.2", "unknown law 'typcal'; did you mean 'typical'?"),
        ("typical:detla=0.2", "delta"),
        ("typical:delta=-1", "delta"),
        ("typical", "delta"),
    ],
)
def test_laws_are_checked_before_anything_loads(text, says):
    with pytest.raises(LawError, match=says.replace("?", r"\?")):
        parse(text)


def test_two_arms_of_one_name_are_refused():
    with pytest.raises(ConfigError, match="two arms are called 'rejection'"):
        parse_arms(["rejection", "rejection"], CONFIG)
    assert len(parse_arms(["rejection", "b=rejection"], CONFIG)) == 2
