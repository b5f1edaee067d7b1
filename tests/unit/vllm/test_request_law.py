"""A request's own law, up to the ceiling."""

import pytest
from tests.support.vllm_steps import NGRAM, settings

from leeway.core.errors import LawError, LawNotAllowedError
from leeway.vllm.request_law import read_request

TYPICAL = {"law": "typical", "delta": 0.2, "eps": 0.5}
OPEN = {**TYPICAL, "allow_laws": "all"}


@pytest.mark.parametrize("extra", [None, {}, {"other": 1}, {"leeway_law": None}])
def test_a_request_that_asks_for_nothing(extra):
    assert read_request(extra, settings(TYPICAL)) is None


def test_knobs_alone_change_the_server_s_own_law():
    law = read_request({"leeway_delta": 0.4}, settings(TYPICAL))
    assert law.info.name == "typical"
    assert (law.options["delta"], law.options["eps"]) == (0.4, 0.5)


def test_another_law_starts_from_its_own_options():
    law = read_request({"leeway_law": "lenient", "leeway_leniency": "0.5"}, settings(OPEN))
    assert law.info.name == "lenient"
    assert law.options["leniency"] == 0.5


def test_a_preset_by_name():
    law = read_request({"leeway_law": "medusa"}, settings(OPEN))
    assert (law.info.name, law.options["delta"]) == ("typical", 0.3)


def test_the_same_question_has_the_same_law_object():
    once = read_request({"leeway_delta": 0.4}, settings(TYPICAL))
    assert read_request({"leeway_delta": 0.4}, settings(TYPICAL)) is once


def test_exact_laws_are_always_allowed_and_others_not():
    assert read_request({"leeway_law": "rejection"}, settings(TYPICAL)).info.name == "rejection"
    with pytest.raises(LawNotAllowedError, match="allow_laws in --additional-config leeway") as at:
        read_request({"leeway_law": "lenient", "leeway_leniency": 0.5}, settings(TYPICAL))
    assert at.value.param == "leeway_law"


@pytest.mark.parametrize(
    ("extra", "param", "message"),
    [
        ({"leeway_law": "typcal"}, "leeway_law", "did you mean 'typical'"),
        ({"leeway_law": 3}, "leeway_law", "the name of a law"),
        ({"leeway_dleta": 0.2}, "leeway_dleta", "did you mean 'leeway_delta'"),
        ({"leeway_delta": [0.2]}, "leeway_delta", "a number or a text"),
        ({"leeway_delta": -1}, "leeway_delta", "'delta' is -1"),
    ],
    ids=["law", "no name", "knob", "list", "range"],
)
def test_what_is_wrong_is_named(extra, param, message):
    with pytest.raises(LawError, match=message) as caught:
        read_request(extra, settings(OPEN))
    assert caught.value.param == param


def test_a_law_that_reads_rows_which_are_not_there():
    with pytest.raises(LawError, match="keeps none"):
        read_request({"leeway_law": "diff", "leeway_alpha": 0.1}, settings(OPEN, drafts=NGRAM))
