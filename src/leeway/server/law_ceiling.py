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
from leeway.core.config import ServerConfig
from leeway.core.errors import ConfigError, LawError, LawNotAllowedError, did_you_mean

ALL = "all"


@dataclass(frozen=True, slots=True)
class LawCeiling:
    """The allowed laws, and all there are.

    Attributes:
        infos: every law by name.
        presets: name of each preset's law.
        allowed: laws that a request may choose, sorted.
    """

    infos: dict[str, LawInfo]
    presets: dict[str, str]
    allowed: tuple[str, ...]

    def check(self, name: str) -> LawInfo:
        """Return what an allowed law, or the law of an allowed preset, declares.

        Raises:
            LawError: there is no such law.
            LawNotAllowedError: there is, but not for requests; names the allowed ones.
        """
        law = self.presets.get(name, name)
        if law in self.allowed:
            return self.infos[law]
        param = "speculative.law"
        if law not in self.infos:
            hint = did_you_mean(name, [*self.infos, *self.presets])
            raise LawError(
                f"unknown law {name!r}{hint}; this server allows {', '.join(self.allowed)}, and "
                "`leeway laws` explains each",
                param=param,
            )
        raise LawNotAllowedError(
            f"law {name!r} may not be chosen by a request to this server; allowed: "
            f"{', '.join(self.allowed)}; its operator can add it with --allow-laws {law}",
            param=param,
        )


def build_ceiling(config: ServerConfig, law: Law) -> LawCeiling:
    """Return the ceiling that the configuration sets; `law` is the configured one.

    Raises:
        ConfigError: `allow_laws` names a law that does not exist.
    """
    infos = {info.name: info for info in law_infos()}
    presets = {preset.name: preset.law for preset in PRESETS}
    asked = config.allow_laws
    if asked is None:
        exact = {name for name, info in infos.items() if info.guarantee is not Guarantee.NONE}
        return LawCeiling(infos, presets, tuple(sorted(exact | {law.info.name})))
    for name in asked:
        if name not in (ALL, *infos, *presets):
            hint = did_you_mean(name, [*infos, *presets, ALL])
            raise ConfigError(
                f"allow_laws (from {config.origin('allow_laws')}) names the unknown law {name!r}"
                f"{hint}; known are {', '.join(infos)} and {ALL}",
                param="allow_laws",
            )
    names = set(infos) if ALL in asked else {presets.get(name, name) for name in asked}
    return LawCeiling(infos, presets, tuple(sorted(names)))
