"""Presets: the settings of other systems, by a name that says whose they are.

A preset is a law with options filled in; options that the user gives override its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from leeway.core.receipt import LawOption


@dataclass(frozen=True, slots=True)
class Preset:
    """Another system's settings of one of the laws."""

    name: str
    law: str
    options: Mapping[str, LawOption]
    source: str


PRESETS = (
    Preset(
        "medusa",
        "typical",
        {"delta": 0.3, "eps": 0.09, "off_set": "redraw"},
        "Medusa reference code: posterior_alpha 0.3, posterior_threshold 0.09",
    ),
    Preset(
        "vllm_v0_typical",
        "typical",
        {"delta": 0.3, "eps": 0.09, "off_set": "argmax"},
        "vLLM v0 TypicalAcceptanceSampler defaults (removed with v0)",
    ),
    Preset(
        "trtllm_relaxed",
        "relaxed_top_k",
        {"rank": 10, "delta": 0.6, "off_set": "argmax", "rows": "raw"},
        "TensorRT-LLM relaxed acceptance, recommended top-k 10 and delta 0.6",
    ),
    Preset(
        "sglang",
        "threshold",
        {"floor": 1.0, "leniency": 1.0, "off_set": "coin"},
        "SGLang speculative_accept_threshold_single and _acc, defaults 1.0 (exact)",
    ),
    Preset(
        "mtplx_478",
        "typical",
        {"delta": 0.2, "eps": 1.0, "off_set": "redraw"},
        "MTPLX pull request 478, --typical-threshold 0.2",
    ),
    Preset(
        "mtplx_485",
        "tokenv3",
        {"alpha": 0.95, "off_set": "pi"},
        "MTPLX pull request 485, --cascade-threshold 0.95",
    ),
)
