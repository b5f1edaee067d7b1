"""Drafters by name. Loads nothing: what a drafter needs is given to it elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from leeway.drafters.base import Drafter
from leeway.drafters.draft_model import ModelDrafter
from leeway.drafters.mtp import MTPDrafter
from leeway.drafters.mtp_ngram import MTPNGramDrafter
from leeway.drafters.ngram import NGramDrafter
from leeway.drafters.none import NoDrafter

DRAFTERS: Mapping[str, type[Drafter]] = MappingProxyType(
    {
        NoDrafter.name: NoDrafter,
        NGramDrafter.name: NGramDrafter,
        ModelDrafter.name: ModelDrafter,
        MTPDrafter.name: MTPDrafter,
        MTPNGramDrafter.name: MTPNGramDrafter,
    }
)
