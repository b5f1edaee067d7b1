"""The laws' configuration inside another server: mapping above environment, one law as a whole."""

import pytest

from leeway.core.config_law import resolve_law
from leeway.core.errors import ConfigError
from leeway.core.types import Acceptance


def resolve(given=None, **environ):
    return resolve_law(given, "--additional-config leeway", environ=environ)


def test_nothing_given_asks_for_nothing():
    assert resolve() is None
    assert resolve(LEEWAY_MODEL="qwen", LEEWAY_PORT="9000") is None


def test_an_empty_mapping_asks_for_the_default_law():
    found = resolve({})
    assert found.acceptance == Acceptance()
    assert found.allow_laws is None
    assert not found.limits.is_active


def test_knobs_stand_beside_the_law():
    found = resolve({"law": "typical", "delta": 0.2, "off_set": "coin"})
    assert found.acceptance == Acceptance("typical", {"delta": 0.2, "off_set": "coin"})
    assert str(found.origin) == "--additional-config leeway: law"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"typical_threshold": 0.3}, Acceptance("typical", {"delta": 0.3, "eps": 1.0})),
        ({"cascade_threshold": 0.5}, Acceptance("tokenv3", {"alpha": 0.5})),
        (
            {"law": "typical", "law_option": {"delta": 0.4}, "eps": 0.5},
            Acceptance("typical", {"eps": 0.5, "delta": 0.4}),
        ),
    ],
    ids=["threshold", "cascade", "nested and flat"],
)
def test_every_way_to_name_a_law(given, expected):
    assert resolve(given).acceptance == expected


def test_the_environment_is_the_fallback():
    found = resolve(LEEWAY_LAW="typical", LEEWAY_LAW_OPTION="delta=0.2", LEEWAY_ALLOW_LAWS="all")
    assert found.acceptance == Acceptance("typical", {"delta": 0.2})
    assert found.allow_laws == ("all",)
    assert str(found.origin) == "LEEWAY_LAW"


def test_the_law_is_one_whole_and_other_settings_are_their_own():
    found = resolve(
        {"law": "lenient", "leniency": 0.5},
        LEEWAY_LAW="typical",
        LEEWAY_LAW_OPTION="delta=0.2",
        LEEWAY_HARD_SUPPORT="false",
        LEEWAY_ALLOW_LAWS="typical",
    )
    assert found.acceptance == Acceptance("lenient", {"leniency": 0.5})
    assert found.allow_laws == ("typical",)
    assert found.values["hard_support"].is_given


@pytest.mark.parametrize(
    ("given", "environ", "message"),
    [
        ({"delta": 0.2}, {}, "has no law to act on"),
        ({"law": "typical", "delta": True}, {}, "neither a number nor a word"),
        ({"law": "typical", "delta": 1, "law_option": "delta=2"}, {}, "given twice"),
        ({"typical_threshold": "much"}, {}, "leeway: typical_threshold.*not a number"),
        ({}, {"LEEWAY_LAWW": "typical"}, "'LEEWAY_LAWW'; did you mean 'LEEWAY_LAW'"),
        ({"typical_threshold": 0.2, "cascade_threshold": 0.5}, {}, "cannot work together"),
    ],
    ids=["no law", "a switch", "twice", "no number", "unknown variable", "two laws"],
)
def test_what_is_wrong_is_named(given, environ, message):
    with pytest.raises(ConfigError, match=message):
        resolve(given, **environ)
