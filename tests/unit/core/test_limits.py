import pytest

from leeway.core.errors import LawError
from leeway.core.limits import NO_LIMITS, Limits


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tv_budget", -0.1),
        ("tv_budget", float("inf")),
        ("tv_budget", float("nan")),
        ("tv_budget", 1e12),
        ("tv_budget", 10**400),
        ("tv_budget", "0.1"),
        ("tv_budget", True),
        ("exact_prefix", -1),
        ("exact_prefix", 10**30),
        ("exact_prefix", 1.0),
        ("exact_prefix", True),
        ("hard_support", 1),
        ("phase", "thinking"),
        ("phase_begin", " "),
        ("phase_end", None),
    ],
)
def test_what_is_wrong_is_named(field, value):
    with pytest.raises(LawError, match=f"^{field} is .*; allowed: ") as caught:
        Limits(**{field: value})
    assert caught.value.param == field


def test_which_limits_are_active_and_which_go_by_position():
    assert not NO_LIMITS.is_active
    assert not Limits(phase_begin="[T]").is_active
    assert Limits(hard_support=True).is_active
    assert not Limits(hard_support=True).is_by_position
    for limits in (Limits(tv_budget=0.0), Limits(exact_prefix=1), Limits(phase="reasoning")):
        assert limits.is_active
        assert limits.is_by_position
