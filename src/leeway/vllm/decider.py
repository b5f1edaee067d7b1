"""Who decides one step in this process: settings, the requests known, laws checked once each.

In: a step, and whose rows it holds. Out: tokens. A law is checked once against its closed form
before it first judges. Knows no name of vLLM's; `replaced_v1` and `replaced_v2` call it from the
functions that they stand in for.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from leeway.acceptance.base import Law
from leeway.vllm.batch import Asked, Plan, Requests
from leeway.vllm.request_law import read_request
from leeway.vllm.self_check import check_law
from leeway.vllm.settings import PluginSettings
from leeway.vllm.tally import Tally


@dataclass(frozen=True, slots=True)
class Wish:
    """What sampling parameters say.

    Attributes:
        extra: the request's extra arguments.
        is_greedy: temperature 0.
        seed: the request's own, if it has one.
    """

    extra: Mapping[str, object] | None
    is_greedy: bool
    seed: int | None


class Decider:
    """Decides in vLLM's place.

    Args:
        settings: in force in this server.
        device: where logits lie.
        tally: counts; None on all but the first rank.
        describe: reads sampling parameters.

    Raises:
        BackendError: the configured law does not emit its closed form here.
    """

    def __init__(
        self,
        settings: PluginSettings,
        device: torch.device,
        tally: Tally | None,
        describe: Callable[[Any], Wish],
    ) -> None:
        self._settings = settings
        self._device = device
        self.tally = tally
        self._describe = describe
        self._requests = Requests(self._read, settings.seed)
        self._checked: set[tuple[str, str, str]] = set()
        self.check(settings.law)

    def check(self, law: Law) -> None:
        """Check a law of this kind once, before it judges.

        Raises:
            BackendError: it does not emit its closed form here.
        """
        kind = law.info.name, law.verifier, str(law.options.get("off_set"))
        if kind not in self._checked:
            check_law(law, self._device, has_rows=self._settings.drafts.has_rows)
            self._checked.add(kind)

    def plan(self, ids: Sequence[str], sources: Sequence[object], alive: Container[str]) -> Plan:
        """Return the plan of this batch; arguments as `Requests.plan` has them."""
        return self._requests.plan(ids, sources, alive)

    def _read(self, source: object) -> Asked:
        wish = self._describe(source)
        law = read_request(wish.extra, self._settings) or self._settings.law
        self.check(law)
        return Asked(law, wish.is_greedy, wish.seed)
