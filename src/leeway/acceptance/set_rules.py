"""The published set rules by name: typical, TokenV1 to V3, relaxed top-k, absolute threshold."""

from __future__ import annotations

from collections.abc import Mapping

from leeway.acceptance.base import Guarantee, Knob, LawInfo
from leeway.acceptance.keep_sets import (
    DraftNearPeak,
    Floor,
    KeepSet,
    Ranked,
    Typical,
    log_gap_scale,
)
from leeway.acceptance.options import number
from leeway.acceptance.ratio_rules import least_leniency
from leeway.acceptance.rule import ROWS, VERIFIER, Rule
from leeway.acceptance.set_law import SetLaw, off_set_knob
from leeway.core.errors import LawError
from leeway.core.receipt import LawOption

_AT_ZERO = "greedy match with processed rows; with rows=raw keeps any token of the set"
_CASCADES = "Narasimhan et al. 2025, arXiv 2405.19261"
GAPS = frozenset({"delta", "ratio", "log_gap"})

TYPICAL = LawInfo(
    name="typical",
    guarantee=Guarantee.NONE,
    summary="keep tokens whose target probability is high for a row of that entropy",
    formula="T = {p > min(eps, delta exp(-H(p)))}; outside T: off_set (published: redraw from p)",
    source="Cai et al. 2024 (Medusa), arXiv 2401.10774, section 2.3.1",
    temperature_zero="no-op below delta 1: greedy match (never keeps anything else)"
    "; with rows=raw keeps any token of the set",
    knobs=(
        Knob(
            "delta",
            "factor on exp(-entropy); higher is stricter",
            default=None,
            low=0.0,
            low_open=True,
            is_required=True,
            exact_end="delta >= vocabulary size with eps 1: nothing is kept",
        ),
        Knob("eps", "cap of the threshold", default=1.0, low=0.0, high=1.0, low_open=True),
        off_set_knob("redraw"),
        ROWS,
        VERIFIER,
    ),
    needs_draft_rows=False,
    may_leave_support=False,
)

TOKENV1 = LawInfo(
    name="tokenv1",
    guarantee=Guarantee.NONE,
    summary="keep tokens whose draft probability comes near the target's peak",
    formula="T = {q >= max p - alpha}; outside T: off_set (published: pi, Algorithm 6)",
    source=f"{_CASCADES}, equation 13",
    temperature_zero=_AT_ZERO,
    knobs=(
        Knob(
            "alpha",
            "allowed distance below the peak; higher is looser",
            default=None,
            low=-1.0,
            high=1.0,
            is_required=True,
            exact_end="-1",
        ),
        off_set_knob("pi"),
        ROWS,
        VERIFIER,
    ),
    needs_draft_rows=True,
    may_leave_support=True,
)

TOKENV2 = LawInfo(
    name="tokenv2",
    guarantee=Guarantee.NONE,
    summary="keep tokens whose target probability comes within alpha of the peak",
    formula="T = {p >= max p - alpha, p > 0}; outside T: off_set (published: pi, Algorithm 6)",
    source=f"{_CASCADES}, equation 14",
    temperature_zero=_AT_ZERO,
    knobs=(
        Knob(
            "alpha",
            "allowed distance below the peak; higher is looser",
            default=None,
            low=-1.0,
            high=1.0,
            is_required=True,
            exact_end="-1",
        ),
        off_set_knob("pi"),
        ROWS,
        VERIFIER,
    ),
    needs_draft_rows=False,
    may_leave_support=False,
)

TOKENV3 = LawInfo(
    name="tokenv3",
    guarantee=Guarantee.NONE,
    summary="keep tokens whose target probability is a fraction 1 - alpha of the peak or more",
    formula="T = {p >= (1 - alpha) max p, p > 0}; outside T: off_set (published: pi, Algorithm 6)",
    source=f"{_CASCADES}, equation 15 and Algorithm 6",
    temperature_zero=_AT_ZERO,
    knobs=(
        Knob(
            "alpha",
            "allowed fraction below the peak; higher is looser",
            default=None,
            low=0.0,
            high=1.0,
            is_required=True,
            exact_end="none: at alpha 0 the most likely token is still kept without a coin",
        ),
        off_set_knob("pi"),
        ROWS,
        VERIFIER,
    ),
    needs_draft_rows=False,
    may_leave_support=False,
)

RELAXED_TOP_K = LawInfo(
    name="relaxed_top_k",
    guarantee=Guarantee.NONE,
    summary="keep tokens among the target's most likely and not far below its peak",
    formula="T = {rank <= k and p >= max p - delta | ratio max p | exp(-log_gap) max p, p > 0}; "
    "outside T: off_set",
    source="TensorRT-LLM relaxed acceptance (delta); Xia et al. 2023 (SpecDec), "
    "arXiv 2203.16487, section 3.2 (log gap)",
    temperature_zero=_AT_ZERO,
    knobs=(
        Knob(
            "rank",
            "how many of the most likely tokens may be kept",
            default=None,
            low=1,
            is_integer=True,
            is_required=True,
            exact_end="none above temperature 0; rank 1 is greedy match at 0",
        ),
        Knob("delta", "allowed distance below the peak", default=None, low=0.0, high=1.0),
        Knob("ratio", "lowest fraction of the peak", default=None, low=0.0, high=1.0),
        Knob("log_gap", "allowed distance below the peak in nats", default=None, low=0.0),
        off_set_knob("coin"),
        ROWS,
        VERIFIER,
    ),
    needs_draft_rows=False,
    may_leave_support=False,
)

THRESHOLD = LawInfo(
    name="threshold",
    guarantee=Guarantee.NONE,
    summary="keep tokens whose target probability reaches a fixed floor",
    formula="T = {p >= floor}; outside T: off_set, the coin being min(1, p/(leniency q))",
    source="SGLang speculative_accept_threshold_single and _acc; "
    "leniency: Leviathan et al. 2023, arXiv 2211.17192, appendix A.5",
    temperature_zero=_AT_ZERO,
    knobs=(
        Knob(
            "floor",
            "probability that suffices",
            default=None,
            low=0.0,
            high=1.0,
            low_open=True,
            is_required=True,
            exact_end="1 (with leniency 1)",
        ),
        Knob(
            "leniency",
            "divisor of the coin outside the set (off_set coin only)",
            default=1.0,
            low=0.0,
            high=1.0,
            low_open=True,
            exact_end="1",
        ),
        off_set_knob("coin"),
        ROWS,
        VERIFIER,
    ),
    needs_draft_rows=False,
    may_leave_support=False,
)


def build_typical(options: Mapping[str, LawOption]) -> Rule:
    """Return the law `typical`."""
    return _law(TYPICAL, options, Typical(number(options, "delta"), number(options, "eps")))


def build_tokenv1(options: Mapping[str, LawOption]) -> Rule:
    """Return the law `tokenv1`."""
    return _law(TOKENV1, options, DraftNearPeak(number(options, "alpha")))


def build_tokenv2(options: Mapping[str, LawOption]) -> Rule:
    """Return the law `tokenv2`."""
    return _law(TOKENV2, options, Floor(gap=number(options, "alpha")))


def build_tokenv3(options: Mapping[str, LawOption]) -> Rule:
    """Return the law `tokenv3`."""
    return _law(TOKENV3, options, Floor(scale=1 - number(options, "alpha")))


def build_relaxed_top_k(options: Mapping[str, LawOption]) -> Rule:
    """Return the law `relaxed_top_k`.

    Raises:
        LawError: not exactly one of `delta`, `ratio` and `log_gap` is given.
    """
    given = [name for name in sorted(GAPS) if name in options]
    if len(given) != 1:
        got = " and ".join(f"{name}={options[name]}" for name in given) or "none of them"
        raise LawError(
            f"law 'relaxed_top_k' needs exactly one of delta, ratio, log_gap, and got {got}; "
            "drop or add one (`leeway laws` shows their ranges)",
            param=given[-1] if given else "delta",
        )
    value = number(options, given[0])
    floors = {
        "delta": Floor(gap=value),
        "ratio": Floor(scale=value),
        "log_gap": Floor(scale=log_gap_scale(value)),
    }
    return _law(RELAXED_TOP_K, options, Ranked(floors[given[0]], int(options["rank"])))


def build_threshold(options: Mapping[str, LawOption]) -> Rule:
    """Return the law `threshold`.

    Raises:
        LawError: `leniency` below 1 is given with an off-set that throws no such coin.
    """
    leniency = least_leniency(options)
    if leniency != 1 and options["off_set"] != "coin":
        raise LawError(
            f"law 'threshold': leniency {leniency:g} acts on the coin of off_set=coin, and off_set "
            f"is {options['off_set']!r}; drop leniency or set off_set=coin (`leeway laws`)",
            param="leniency",
        )
    floor = Floor(scale=0.0, base=number(options, "floor"))
    return _law(THRESHOLD, options, floor, leniency)


def _law(
    info: LawInfo,
    options: Mapping[str, LawOption],
    keep_set: KeepSet,
    leniency: float = 1.0,
) -> Rule:
    return SetLaw(
        info=info,
        options=dict(options),
        reads_raw_rows=options["rows"] == "raw",
        keep_set=keep_set,
        off_set=str(options["off_set"]),
        leniency=leniency,
    )
