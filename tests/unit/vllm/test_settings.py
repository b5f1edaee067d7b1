"""What vLLM was given for us, and what cannot work."""

from types import SimpleNamespace

import pytest
from tests.support.vllm_steps import NGRAM, settings

from leeway.core.errors import ConfigError, LawError
from leeway.vllm.settings import METER_EVERY, describe_drafts, read_config


@pytest.mark.parametrize("additional", [None, {}, {"other": 1}, object()])
def test_without_our_key_nothing_is_asked_for(additional):
    assert read_config(additional, environ={}) is None


def test_the_environment_alone_asks_for_a_law():
    config, meter_every = read_config({}, environ={"LEEWAY_TYPICAL_THRESHOLD": "0.2"})
    assert config.acceptance.law == "typical"
    assert meter_every == METER_EVERY


def test_law_ceiling_and_meter():
    found = settings({"law": "typical", "delta": 0.2, "allow_laws": ["all"], "meter_every": 8})
    assert found.law.info.name == "typical"
    assert found.law.options["delta"] == 0.2
    assert "lenient" in found.ceiling.allowed
    assert found.meter_every == 8


def test_masked_tokens_stay_masked_unless_switched_off():
    given = {"law": "ensemble", "weight": 0.5}
    assert not settings(given).law.info.may_leave_support
    assert settings({**given, "hard_support": False}).law.info.may_leave_support


def test_raw_rows_are_asked_for_to_leave_the_truncated_row():
    given = {"law": "typical", "delta": 0.2, "rows": "raw"}
    assert settings(given).law.info.may_leave_support
    assert not settings({**given, "hard_support": True}).law.info.may_leave_support


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"law": "typcal"}, "unknown law 'typcal'"),
        ({"law": "typical"}, "needs its option 'delta'"),
        ({"law": "typical", "delta": 0.2, "alow_laws": "all"}, "has no option 'alow_laws'"),
    ],
    ids=["law", "required knob", "key"],
)
def test_a_wrong_law_is_named(given, message):
    with pytest.raises(LawError, match=message):
        settings(given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tv_budget": 0.1}, "tv_budget 0.1 .*limits where in an answer"),
        ({"exact_prefix": 4}, "exact_prefix 4"),
        ({"allow_laws": "typcal"}, "allow_laws .*unknown law 'typcal'"),
        ({"meter_every": -1}, "meter_every is -1"),
        ({"meter_every": True}, "meter_every is True"),
    ],
    ids=["budget", "prefix", "ceiling", "meter", "switch"],
)
def test_what_cannot_work_is_named(given, message):
    with pytest.raises(ConfigError, match=message):
        settings(given)


def test_not_an_object():
    with pytest.raises(ConfigError, match="leeway is 'typical'; allowed is an object"):
        read_config({"leeway": "typical"}, environ={})


@pytest.mark.parametrize("given", [{"law": "opt", "alpha": 0.1}, {"law": "tokenv1", "alpha": 0.1}])
def test_a_law_that_reads_draft_rows_needs_them(given):
    assert settings(given).law.info.needs_draft_rows
    with pytest.raises(LawError, match="keeps none: the drafts of method 'ngram' have none"):
        settings(given, drafts=NGRAM)


def test_raw_draft_rows_are_never_kept():
    with pytest.raises(LawError, match="rows=raw reads the draft model's rows"):
        settings({"law": "opt", "alpha": 0.1, "rows": "raw"})
    assert settings({"law": "typical", "delta": 0.2, "rows": "raw"}).law.reads_raw_rows


def speculative(**changes):
    values = {
        "method": "draft_model",
        "num_speculative_tokens": 4,
        "draft_sample_method": "probabilistic",
        "rejection_sample_method": "standard",
    }
    return SimpleNamespace(**{**values, **changes})


@pytest.mark.parametrize(
    ("changes", "has_rows"),
    [
        ({}, True),
        ({"method": "eagle3"}, True),
        ({"draft_sample_method": "greedy"}, False),
        ({"method": "ngram"}, False),
        ({"method": "suffix"}, False),
    ],
    ids=["draft model", "eagle", "greedy drafts", "ngram", "suffix"],
)
def test_which_drafts_have_rows(changes, has_rows):
    found = describe_drafts(speculative(**changes))
    assert found.has_rows is has_rows
    assert found.num_speculative_tokens == 4


def test_nothing_to_judge():
    with pytest.raises(ConfigError, match="drafts nothing"):
        describe_drafts(None)


def test_two_rules_for_one_draft():
    with pytest.raises(ConfigError, match="rejection_sample_method 'block'"):
        describe_drafts(speculative(rejection_sample_method="block"))
