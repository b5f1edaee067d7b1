"""The ceiling: which acceptance laws a request may choose.

By default the laws with a guarantee and the one the server was started with; `allow_laws` names
others, or all. The ceiling is about laws, not about the values of their knobs; a preset counts as
the law it fills in.
"""

from __future__ import annotations

from dataclasses import dataclass

from leeway.acceptance.base import Guarantee, Law, LawInfo
from leeway.acceptance.presets import PRESETS
from leeway.acceptance.registry import law_infos
from leeway.core.config_values import Origin
from leeway.core.errors import ConfigError, LawError, LawNotAllowedError, did_you_mean

ALL = "all"


@dataclass(frozen=True, slots=True)
class LawCeiling:
    """The allowed laws, and all there are.

    Attributes:
        infos: every law by name.
        presets: name of each preset's law.
        allowed: laws that a request may choose, sorted.
        param: the request's field that names a law; errors name it.
        setting: what an operator adds a law to, as they would write it.
    """

    infos: dict[str, LawInfo]
    presets: dict[str, str]
    allowed: tuple[str, ...]
    param: str = "speculative.law"
    setting: str = "--allow-laws"

    def check(self, name: str) -> LawInfo:
        """Return what an allowed law, or the law of an allowed preset, declares.

        Raises:
            LawError: there is no such law.
            LawNotAllowedError: there is, but not for requests; names the allowed ones.
        """
        law = self.presets.get(name, name)
        if law in self.allowed:
            return self.infos[law]
        if law not in self.infos:
            hint = did_you_mean(name, [*self.infos, *self.presets])
            raise LawError(
                f"unknown law {name!r}{hint}; this server allows {', '.join(self.allowed)}, and "
                "`leeway laws` explains each",
                param=self.param,
            )
        raise LawNotAllowedError(
            f"law {name!r} may not be chosen by a request to this server; allowed: "
            f"{', '.join(self.allowed)}; its operator can add it with {self.setting} {law}",
            param=self.param,
        )


def build_ceiling(
    allow_laws: tuple[str, ...] | None,
    origin: Origin,
    law: Law,
    *,
    param: str = "speculative.law",
    setting: str = "--allow-laws",
) -> LawCeiling:
    """Return the ceiling that a configuration sets.

    Args:
        allow_laws: names of laws and presets, or `all`; None allows what has a guarantee, and
            `law`.
        origin: where `allow_laws` came from.
        law: the configured law.
        param: see `LawCeiling`.
        setting: see `LawCeiling`.

    Raises:
        ConfigError: `allow_laws` names a law that does not exist.
    """
    infos = {info.name: info for info in law_infos()}
    presets = {preset.name: preset.law for preset in PRESETS}
    if allow_laws is None:
        exact = {name for name, info in infos.items() if info.guarantee is not Guarantee.NONE}
        allowed = tuple(sorted(exact | {law.info.name}))
        return LawCeiling(infos, presets, allowed, param, setting)
    for name in allow_laws:
        if name not in (ALL, *infos, *presets):
            hint = did_you_mean(name, [*infos, *presets, ALL])
            raise ConfigError(
                f"allow_laws (from {origin}) names the unknown law {name!r}"
                f"{hint}; known are {', '.join(infos)} and {ALL}",
                param="allow_laws",
            )
    names = set(infos) if ALL in allow_laws else {presets.get(name, name) for name in allow_laws}
    return LawCeiling(infos, presets, tuple(sorted(names)), param, setting)
