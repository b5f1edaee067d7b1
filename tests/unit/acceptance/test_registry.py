import numpy as np
import pytest
from tests.support.law_cases import LOSSY, build, label

from leeway.acceptance.base import Guarantee, RowPair
from leeway.acceptance.presets import PRESETS
from leeway.acceptance.registry import build_law, law_infos
from leeway.core.errors import LawError
from leeway.core.types import Acceptance

NAMES = [
    *("rejection", "block", "sample_match", "greedy_match"),
    *("typical", "tokenv1", "tokenv2", "tokenv3", "relaxed_top_k", "threshold"),
    *("opt", "diff", "lenient", "clip", "tv_budget", "ensemble"),
]


def test_the_names_that_users_type():
    assert [info.name for info in law_infos()] == NAMES


def test_guarantees_and_verifiers():
    verifiers = {"rejection": "token", "block": "block", "sample_match": "match"}
    for name, verifier in verifiers.items():
        law = build(name)
        assert law.info.guarantee is Guarantee.EXACT_DISTRIBUTION
        assert law.verifier == verifier
    assert build("greedy_match").info.guarantee is Guarantee.EXACT_GREEDY
    assert build("greedy_match").verifier == "match"
    for info in law_infos()[4:]:
        assert info.guarantee is Guarantee.NONE
        assert [knob.name for knob in info.knobs].count("verifier") == 1


def test_every_law_declares_itself():
    for info in law_infos():
        assert all((info.summary, info.formula, info.source, info.temperature_zero))
        if info.guarantee is Guarantee.NONE:
            assert any(knob.exact_end for knob in info.knobs)


def test_what_the_laws_declare_about_rows():
    needing = {info.name for info in law_infos() if info.needs_draft_rows}
    leaving = {info.name for info in law_infos() if info.may_leave_support}
    assert needing == {"opt", "diff", "tokenv1"}
    assert leaving == {"opt", "diff", "tokenv1", "tv_budget", "ensemble"}


@pytest.mark.parametrize("acceptance", LOSSY, ids=label)
def test_verifier_is_an_option_of_every_lossy_law(acceptance):
    law = build_law(acceptance)
    assert law.verifier == acceptance.options["verifier"] == law.options["verifier"]
    assert not law.reads_raw_rows


@pytest.mark.parametrize("verifier", ["token", "block"])
def test_raw_rows_are_read_only_where_asked_for(verifier):
    p, q = np.array([0.0, 1.0, 0.0]), np.array([0.0, 0.0, 1.0])
    raw = np.array([0.1, 0.5, 0.4])
    rows = RowPair(p, q, threshold_target_probs=raw, threshold_draft_probs=np.array([0, 0.1, 0.9]))
    for name, options in [
        ("tokenv2", {"alpha": 0.2}),
        ("tokenv3", {"alpha": 0.3}),
        ("tokenv1", {"alpha": -0.3}),
        ("threshold", {"floor": 0.3}),
        ("relaxed_top_k", {"rank": 2, "log_gap": 1}),
        ("typical", {"delta": 0.5}),
        ("diff", {"alpha": -0.2}),
        ("opt", {"alpha": -0.2}),
    ]:
        kept = build(name, **options, rows="raw", verifier=verifier)
        assert kept.reads_raw_rows
        assert kept.info.may_leave_support
        assert kept.emitted_probs(rows).tolist() == [0, 0, 1]
        assert kept.acceptance_rate(rows) == 1
        fallback = RowPair(raw, q)
        processed = build(name, **options, verifier=verifier)
        assert np.array_equal(kept.emitted_probs(fallback), processed.emitted_probs(fallback))
        assert processed.emitted_probs(rows).tolist() == [0, 1, 0]


def test_unknown_law():
    with pytest.raises(
        LawError, match=r"unknown law 'typcal'; did you mean 'typical'.*leeway laws"
    ):
        build_law(Acceptance("typcal"))
    with pytest.raises(LawError, match="unknown law 'zzz'; the laws are rejection, block"):
        build_law(Acceptance("zzz"))


@pytest.mark.parametrize(
    ("options", "got"),
    [
        ({}, "none of them"),
        ({"delta": 0.1, "ratio": 0.5}, "delta=0.1 and ratio=0.5"),
        ({"delta": 0.1, "ratio": 0.5, "log_gap": 1}, "delta=0.1 and log_gap=1.0 and ratio=0.5"),
    ],
)
def test_relaxed_top_k_wants_one_way_of_saying_how_far(options, got):
    with pytest.raises(LawError, match=f"exactly one of delta, ratio, log_gap, and got {got}"):
        build("relaxed_top_k", rank=3, **options)


def test_leniency_of_the_threshold_needs_the_coin():
    with pytest.raises(LawError, match=r"leniency 0\.5 .*off_set is 'pi'"):
        build("threshold", floor=0.3, leniency=0.5, off_set="pi")
    assert build("threshold", floor=0.3, off_set="pi").options["leniency"] == 1.0


@pytest.mark.parametrize(
    ("preset", "law", "options"),
    [
        ("medusa", "typical", {"delta": 0.3, "eps": 0.09, "off_set": "redraw"}),
        ("vllm_v0_typical", "typical", {"delta": 0.3, "eps": 0.09, "off_set": "argmax"}),
        (
            "trtllm_relaxed",
            "relaxed_top_k",
            {"rank": 10, "delta": 0.6, "off_set": "argmax", "rows": "raw"},
        ),
        ("sglang", "threshold", {"floor": 1.0, "leniency": 1.0, "off_set": "coin"}),
        ("mtplx_478", "typical", {"delta": 0.2, "eps": 1.0, "off_set": "redraw"}),
        ("mtplx_485", "tokenv3", {"alpha": 0.95, "off_set": "pi"}),
    ],
)
def test_presets_are_laws_under_their_true_names(preset, law, options):
    assert preset in {one.name for one in PRESETS}
    built = build(preset)
    assert built.info.name == law
    assert {name: built.options[name] for name in options} == options


def test_given_options_override_a_preset():
    assert build("medusa", delta=0.5).options["delta"] == 0.5
    relaxed = build("trtllm_relaxed", ratio=0.5).options
    assert relaxed["ratio"] == 0.5
    assert "delta" not in relaxed
    with pytest.raises(LawError, match="no option 'alpha'"):
        build("medusa", alpha=0.5)


def test_extreme_options_do_not_overflow_float32():
    rows = RowPair(np.array([0.5, 0.5, 0], np.float32), np.array([0.5, 0.25, 0.25], np.float32))
    equal = RowPair(rows.target_probs, rows.target_probs)
    for law in (
        build("typical", delta=1e300),
        build("lenient", leniency=1e-300),
        build("threshold", floor=0.9, leniency=1e-300),
        build("clip", c1=1e300),
        build("opt", alpha=1e300),
        build("opt", alpha=-1e300),
        build("relaxed_top_k", rank=1, log_gap=1e300),
    ):
        for pair in (rows, equal):
            emitted = law.emitted_probs(pair)
            assert np.all(np.isfinite(emitted))
            assert abs(emitted.sum() - 1) < 1e-6
