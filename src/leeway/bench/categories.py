"""Results by category of the prompts, where a workload has several.

In: windows and the summaries of all of them. Out: a table, an arm a row within each category.
Measures nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from leeway.bench.summary import ArmSummary, summarise
from leeway.bench.tables import Rows, interval_text, number_text
from leeway.bench.window import Window


def by_category(
    windows: Sequence[Window], summaries: Sequence[ArmSummary]
) -> dict[str, list[ArmSummary]]:
    """Return the summaries of each category, in order of first prompts; empty for fewer than two.

    An arm that is void somewhere is in none; where the first is, nothing has a ratio.
    """
    names = [one.name for one in summaries if one.void is None]
    found: dict[str, list[Window]] = {}
    for window in windows:
        found.setdefault(window.category or "none", []).append(window)
    if len(found) < 2:
        return {}
    summed = {category: summarise(some, names) for category, some in found.items()}
    if summaries[0].void is None:
        return summed
    return {category: [_without_ratios(one) for one in own] for category, own in summed.items()}


def _without_ratios(one: ArmSummary) -> ArmSummary:
    none = dict.fromkeys(one.ratios)
    return replace(one, ratios=none, decode_ratio_by_seed={}, decode_ratio_median=None)


def category_tables(windows: Sequence[Window], summaries: Sequence[ArmSummary]) -> list[Rows]:
    """Return the table of categories, if there are several."""
    first = summaries[0].name
    rows = [
        [
            *("category", "arm", "n", "tokens/s", f"x {first}", "tokens/step", "kept"),
            "loss mean",
        ]
    ]
    for category, own in by_category(windows, summaries).items():
        for one in own:
            speed = one.estimates["decode_tokens_per_s"]
            rows.append(
                [
                    category,
                    one.name,
                    str(one.num_windows),
                    number_text(None if speed is None else speed.value, 1),
                    "1" if one.name == first else interval_text(one.ratios["decode"]),
                    interval_text(one.estimates["tokens_per_verify_step"]),
                    number_text(one.rates["kept_draft_rate"], 3),
                    number_text(one.loss["total_variation_mean"], 4),
                ]
            )
    return [rows] if len(rows) > 1 else []
