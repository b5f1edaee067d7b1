"""Limits of one request under the server's own."""

import pytest

from leeway.core.errors import LawError, LawNotAllowedError
from leeway.core.limits import NO_LIMITS, Limits
from leeway.server.limit_fields import read_limits

OWN = Limits(tv_budget=0.2, exact_prefix=3, hard_support=True, phase="reasoning", phase_begin="[T]")


def test_a_request_that_names_none_has_the_servers():
    assert read_limits({"law": "typical"}, OWN) is None


@pytest.mark.parametrize(
    ("given", "limits"),
    [
        ({"tv_budget": 0}, Limits(tv_budget=0)),
        ({"exact_prefix": 2}, Limits(exact_prefix=2)),
        ({"hard_support": True, "phase": "all"}, Limits(hard_support=True)),
        ({"phase": "reasoning"}, Limits(phase="reasoning")),
    ],
    ids=["budget", "prefix", "support", "phase"],
)
def test_a_server_without_limits_takes_any(given, limits):
    assert read_limits(given, NO_LIMITS) == limits


def test_what_is_not_named_holds_as_the_server_was_started():
    asked = read_limits({"tv_budget": 0.2, "exact_prefix": 3}, OWN)
    assert asked == OWN
    assert read_limits({"tv_budget": 0.1}, OWN) == Limits(
        0.1, 3, hard_support=True, phase="reasoning", phase_begin="[T]"
    )


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("tv_budget", 0.3, r"0 to 0\.2 \(the server's --tv-budget\)"),
        ("exact_prefix", 2, r"3 or more \(the server's --exact-prefix\)"),
        ("hard_support", False, r"true \(the server's --hard-support\)"),
        ("phase", "all", r"reasoning \(the server's --phase\)"),
    ],
)
def test_looser_than_the_server_is_refused(name, value, allowed):
    with pytest.raises(LawNotAllowedError, match=allowed) as caught:
        read_limits({name: value}, OWN)
    assert caught.value.param == f"speculative.{name}"


@pytest.mark.parametrize(
    ("name", "value"),
    [("tv_budget", "x"), ("exact_prefix", -1), ("hard_support", 1), ("phase", [])],
    ids=["budget", "prefix", "support", "phase"],
)
def test_what_is_wrong_is_named(name, value):
    with pytest.raises(LawError, match=rf"^speculative\.{name} is .*; allowed: ") as caught:
        read_limits({name: value}, OWN)
    assert caught.value.param == f"speculative.{name}"
