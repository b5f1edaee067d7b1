"""The `speculative` object: law, knobs, draft length, level of metrics."""

import pytest
from tests.server.fake_service import FakeEngine

from leeway.acceptance.law_ceiling import build_ceiling
from leeway.core.config import EngineConfig
from leeway.core.config_values import DEFAULT_ORIGIN
from leeway.core.errors import LawError, LawNotAllowedError, RequestError
from leeway.core.types import Acceptance
from leeway.server.speculative_fields import SpeculativeFields, read_speculative

TYPICAL = Acceptance("typical", {"delta": 0.3, "eps": 0.5})


def read(raw, acceptance=TYPICAL, allow_laws=("all",), **settings):
    engine = FakeEngine(EngineConfig(acceptance=acceptance, **settings))
    ceiling = build_ceiling(allow_laws, DEFAULT_ORIGIN, engine.law)
    return read_speculative(raw, engine, ceiling)


def law_of(raw, **settings):
    acceptance = read(raw, **settings).acceptance
    return acceptance.law, dict(acceptance.options)


@pytest.mark.parametrize("raw", [None, {}, {"law": None, "delta": None}])
def test_saying_nothing_takes_the_servers_own(raw):
    assert read(raw) == SpeculativeFields()


def test_knobs_beside_the_law_or_in_options():
    flat = law_of({"law": "tokenv3", "alpha": 0.5})
    assert (
        flat == law_of({"law": "tokenv3", "options": {"alpha": 0.5}}) == ("tokenv3", {"alpha": 0.5})
    )


def test_knobs_without_a_law_change_the_configured_one():
    law, options = law_of({"delta": 0.6})
    assert law == "typical"
    assert (options["delta"], options["eps"]) == (0.6, 0.5)


def test_naming_the_configured_law_starts_from_the_options_in_force():
    law, options = law_of({"law": "typical", "off_set": "coin"})
    assert law == "typical"
    assert (options["delta"], options["eps"], options["off_set"]) == (0.3, 0.5, "coin")


def test_another_law_starts_from_its_own_defaults():
    assert law_of({"law": "rejection"}) == ("rejection", {})
    assert law_of({"law": "medusa", "delta": 0.1}) == ("medusa", {"delta": 0.1})


def test_level_and_draft_length():
    assert read({"metrics": "detailed"}).is_detailed
    assert not read({"metrics": "summary"}).is_detailed
    assert read({"num_speculative_tokens": 0}).num_speculative_tokens == 0
    assert read({"num_speculative_tokens": 3}).num_speculative_tokens == 3
    assert read({"num_speculative_tokens": 2}).acceptance is None


@pytest.mark.parametrize(
    ("raw", "message", "param"),
    [
        ({"lw": "typical"}, "unknown key 'lw'; did you mean 'law'", "lw"),
        ({"dleta": 0.1}, "unknown key 'dleta'; did you mean 'delta'", "dleta"),
        ({"options": {"alpha": 0.1}}, "unknown key 'alpha'.*takes delta", "alpha"),
        ({"law": 3}, "speculative.law is 3", "law"),
        ({"options": 3}, "speculative.options is 3", "options"),
        ({"delta": 0.1, "options": {"delta": 0.1}}, "given twice", "delta"),
        ({"delta": True}, "speculative.delta is True", "delta"),
        ({"delta": [1]}, r"speculative.delta is \[1\]", "delta"),
        ({"metrics": "all"}, "allowed: 'summary' or 'detailed'", "metrics"),
        ({"num_speculative_tokens": -1}, "-1; allowed: 0 .off. to 3", "num_speculative_tokens"),
        ({"num_speculative_tokens": 4}, "4; allowed: 0 .off. to 3", "num_speculative_tokens"),
        ({"num_speculative_tokens": True}, "allowed: a whole number", "num_speculative_tokens"),
        ({"num_speculative_tokens": 1.0}, "allowed: a whole number", "num_speculative_tokens"),
    ],
)
def test_every_mistake_is_named(raw, message, param):
    with pytest.raises(RequestError, match=message) as caught:
        read(raw)
    assert caught.value.param == f"speculative.{param}"
    assert caught.value.http_status == 400


@pytest.mark.parametrize(
    ("raw", "param"),
    [
        ({"delta": -1}, "delta"),
        ({"law": "tokenv3"}, "alpha"),
        ({"law": "tokenv3", "alpha": 2}, "alpha"),
        ({"law": "tokenv3", "alpha": "high"}, "alpha"),
        ({"law": "typcal"}, "law"),
    ],
)
def test_what_the_law_itself_refuses_names_the_knob(raw, param):
    with pytest.raises(LawError) as caught:
        read(raw)
    assert caught.value.param == f"speculative.{param}"


def test_the_ceiling_holds_for_laws_and_for_knobs():
    with pytest.raises(LawNotAllowedError):
        read({"law": "tokenv3", "alpha": 0.5}, allow_laws=None)
    with pytest.raises(LawNotAllowedError):
        read({"delta": 0.1}, allow_laws=("rejection",))
    assert law_of({"delta": 0.1}, allow_laws=None)[0] == "typical"


def test_drafts_cannot_be_asked_of_a_server_without_a_drafter():
    with pytest.raises(RequestError, match="runs without a drafter"):
        read({"num_speculative_tokens": 1}, drafter="none")
    assert read({"num_speculative_tokens": 0}, drafter="none").num_speculative_tokens == 0
