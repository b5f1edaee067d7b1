"""One setting: what a row of the table of settings says, and how its value is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from leeway.core import config_values as read

Group = Literal["model", "drafting", "law", "server", "sampling", "output"]

ENV_PREFIX = "LEEWAY_"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. `unset` says in words what a default of None means.

    `metavar` stands for the value in help texts; `choices` are offered by shell completion.
    """

    name: str
    group: Group
    meaning: str
    reader: read.Reader
    default: object = None
    metavar: str = ""
    unset: str = "unset"
    choices: tuple[str, ...] = ()
    short: str = ""
    is_switch: bool = False
    is_list: bool = False
    is_secret: bool = False

    @property
    def flag(self) -> str:
        """The long flag."""
        return "--" + self.name.replace("_", "-")

    @property
    def env(self) -> str:
        """The environment variable."""
        return ENV_PREFIX + self.name.upper()

    def show(self, value: object) -> str:
        """Return the value as a user reads it."""
        if value is None or value == ():
            return self.unset
        if self.is_secret:
            return "(hidden)"
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, dict):
            return ", ".join(f"{key}={item}" for key, item in value.items()) or "none"
        if isinstance(value, tuple):
            return ", ".join(repr(item) if self.name == "stop" else item for item in value)
        if self.name in ("kv_memory", "max_body_bytes") and isinstance(value, int):
            return read.format_size(value)
        return str(value)
