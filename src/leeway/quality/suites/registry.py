"""All suites by name."""

from __future__ import annotations

from leeway.core.errors import ConfigError, did_you_mean
from leeway.quality.suites.base import Suite
from leeway.quality.suites.gsm8k import GSM8K
from leeway.quality.suites.humaneval import HUMANEVAL, HUMANEVAL_PLUS
from leeway.quality.suites.ifeval import IFEVAL
from leeway.quality.suites.mbpp import MBPP, MBPP_PLUS

_SUITES: tuple[Suite, ...] = (HUMANEVAL, HUMANEVAL_PLUS, MBPP, MBPP_PLUS, GSM8K, IFEVAL)


def suite_names() -> tuple[str, ...]:
    """Return the names that users type."""
    return tuple(one.name for one in _SUITES)


def suite(name: str) -> Suite:
    """Return a suite.

    Raises:
        ConfigError: there is none of this name.
    """
    found = next((one for one in _SUITES if one.name == name), None)
    if found is None:
        close = did_you_mean(name, suite_names())
        raise ConfigError(f"unknown suite {name!r}{close}; there are {', '.join(suite_names())}")
    return found
