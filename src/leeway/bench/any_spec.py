"""Arms of every kind, as a user writes them: of this process, servers by URL, rivals to start.

In: texts. Out: checked specs in the same order. Loads, starts and connects to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from leeway.bench.arm_spec import ArmSpec, check_names, parse_arms
from leeway.bench.rivals import RivalSpec, is_rival, parse_rival
from leeway.bench.url_spec import UrlSpec, is_url, parse_url
from leeway.core.config import EngineConfig

AnySpec = ArmSpec | UrlSpec | RivalSpec


def parse_any(texts: Sequence[str], config: EngineConfig) -> list[AnySpec]:
    """Return the arms in the order given; arguments as `parse_arms`.

    Raises:
        ConfigError, LawError: as `parse_arms`, or a server or rival does not follow its grammar.
    """
    specs = [_parse(text, config) for text in texts]
    check_names([spec.name for spec in specs])
    return specs


def _parse(text: str, config: EngineConfig) -> AnySpec:
    if is_url(text):
        return parse_url(text)
    if is_rival(text):
        return parse_rival(text)
    return parse_arms([text], config)[0]
