"""Receipts of Leeway's plugin, read off /metrics around a request."""

from dataclasses import replace

import pytest
from tests.support.bench_arms import PROMPTS
from tests.support.openai_server import answer, fake_server
from tests.support.tabular_engine import make_engine

from leeway.backends.tabular import random_table
from leeway.bench.plugin_receipts import PluginReceipts, read_counters, receipt_of
from leeway.bench.url_arm import NOT_TOLD, ready_url_arm, url_window
from leeway.bench.url_spec import UrlSpec
from leeway.core.receipt import Tally
from leeway.core.types import SamplingParams

TOKENIZER = make_engine(random_table(5, 1, seed=1)).parts.tokenizer
FIELDS = (
    *("verify_steps", "draft_tokens", "positions_decided", "accepted", "deferred", "resampled"),
    *("loss_positions", "loss_total_variation", "loss_kl", "outside_support"),
)
TYPICAL = ("typical", "none", "rows")
EXACT = ("rejection", "exact_distribution", "rows")


def metrics(**laws):
    """Return a vLLM server's /metrics; values of each law are in the order of FIELDS."""
    lines = [
        "# HELP vllm:num_requests_running Running",
        'vllm:num_requests_running{engine="0"} 0.0',
    ]
    for law, values in laws.items():
        guarantee = "none" if law == "typical" else "exact_distribution"
        labels = f'draft_rows="rows",guarantee="{guarantee}",law="{law}"'
        lines += [
            f"leeway_{name}_total{{{labels}}} {value}"
            for name, value in zip(FIELDS, values, strict=True)
        ]
        lines.append(f"leeway_engaged{{{labels}}} 1.0")
    return "\n".join(lines) + "\n"


BEFORE = metrics(
    typical=(10.0, 40.0, 25.0, 20.0, 5.0, 4.0, 25.0, 1.5, 2.0, 5.0), rejection=[1.0] * 10
)
AFTER = metrics(
    typical=(14.0, 56.0, 37.0, 29.0, 8.0, 6.0, 31.0, 2.7, 3.5, 8.0), rejection=[1.0] * 10
)


def test_counters_are_read_by_law():
    found = read_counters(BEFORE)
    assert set(found) == {TYPICAL, EXACT}
    assert found[TYPICAL]["loss_total_variation"] == 1.5
    assert read_counters("nothing here") == {}


def test_a_receipt_is_what_was_added():
    told = receipt_of(read_counters(BEFORE), read_counters(AFTER))
    assert (told["law"], told["guarantee"]) == TYPICAL[:2]
    counts = told["verify_steps"], told["num_draft_tokens"], told["num_accepted_draft_tokens"]
    assert counts == (4, 16, 9)
    assert told["output_tokens"] == 13
    assert told["loss"] == {  # 6 of the 12 positions that were decided are measured, 3 outside
        "total_variation_mean": pytest.approx(1.2 / 6),
        "kl_mean": pytest.approx(1.5 / 3),
        "outside_support": 6,
    }


def test_a_loss_that_no_step_measured_is_not_told_and_makes_the_window_void():
    after = metrics(typical=(14.0, 56.0, 37.0, 29.0, 8.0, 6.0, 25.0, 1.5, 2.0, 5.0))
    told = receipt_of(read_counters(BEFORE), read_counters(after))
    assert set(told["loss"].values()) == {None}

    def reply(_):
        fake.metrics = after
        return 200, answer("a", "b")

    with fake_server(reply) as fake:
        fake.metrics = BEFORE
        arm = ready_url_arm(UrlSpec("it", fake.url), TOKENIZER, {})
        arm = replace(arm, receipts=PluginReceipts(fake.url, settled_s=0.0))
        window = url_window(arm, PROMPTS[0], SamplingParams(max_tokens=8, temperature=0.5))
    assert "measured at none: start vLLM with meter_every 1" in window.void


def test_what_is_not_one_law_s_is_no_receipt():
    more = metrics(
        typical=(14.0, 56.0, 37.0, 29.0, 8.0, 6.0, 31.0, 2.7, 3.5, 8.0), rejection=[2.0] * 10
    )
    assert receipt_of(read_counters(BEFORE), read_counters(more)) is None
    assert receipt_of(read_counters(BEFORE), read_counters(BEFORE)) is None


def test_a_request_beside_another_has_no_receipt(monkeypatch):
    receipts = PluginReceipts("http://127.0.0.1:1/v1", settled_s=0.0)
    texts = iter([BEFORE, BEFORE, AFTER, AFTER])
    monkeypatch.setattr(receipts, "_text", lambda: next(texts))
    first = receipts.begin()
    second = receipts.begin()
    assert receipts.end(second) is None
    assert receipts.end(first) is None
    alone = receipts.begin()
    assert receipts.end(alone)["law"] == "typical"


@pytest.mark.parametrize("is_vllm", [True, False])
def test_a_window_tells_what_the_plugin_counted(is_vllm):
    def reply(_):
        fake.metrics = AFTER if is_vllm else ""
        return 200, answer("a", "b")

    with fake_server(reply) as fake:
        fake.metrics = BEFORE if is_vllm else ""
        arm = ready_url_arm(UrlSpec("it", fake.url), TOKENIZER, {})
        assert (arm.receipts is not None) is is_vllm
        if is_vllm:
            arm = replace(arm, receipts=PluginReceipts(fake.url, settled_s=0.0))
        window = url_window(arm, PROMPTS[0], SamplingParams(max_tokens=8, temperature=0.5))
    assert window.void is None
    assert window.receipt["law"] == ("typical" if is_vllm else NOT_TOLD)
    assert window.tally["num_accepted_tokens"] == (9 if is_vllm else 0)
    sums = [window.tally[name] for name in ("loss_tv_sum", "loss_kl_sum", "num_outside_support")]
    assert sums == pytest.approx([2.4, 3.0, 6] if is_vllm else [0, 0, 0])
    loss = Tally(num_decided=12, loss_tv_sum=sums[0], loss_kl_sum=sums[1]).loss()
    largest = loss["total_variation_max"], loss["kl_max"]
    assert largest == ((None, None) if is_vllm else (0.0, 0.0))


@pytest.mark.parametrize("law", ["typical", "rejection"])
def test_another_law_than_the_request_s_makes_the_window_void(law):
    def reply(_):
        fake.metrics = AFTER
        return 200, answer("a", "b")

    with fake_server(reply) as fake:
        fake.metrics = BEFORE
        spec = UrlSpec("it", fake.url, extra={"vllm_xargs.leeway_law": law})
        arm = replace(
            ready_url_arm(spec, TOKENIZER, {}), receipts=PluginReceipts(fake.url, settled_s=0.0)
        )
        window = url_window(arm, PROMPTS[0], SamplingParams(max_tokens=8, temperature=0.5))
    expected = None if law == "typical" else "law typical ran, rejection was asked for"
    assert window.void == expected
