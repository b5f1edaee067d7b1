"""Metrics: the process in Prometheus' terms, with the receipt's names and the labels law, drafter.

Counters are read from the engine's own totals when scraped, so that they equal the sums of the
receipts. Latencies are observed here, where they are felt. One registry for each application.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from leeway.core.receipt import Receipt, Tally
from leeway.server.deltas import Timing
from leeway.server.service_protocol import Service

PREFIX = "leeway_"
LABELS = ("law", "drafter")
_LATENCY_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_GAP_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)

_COUNTERS: dict[str, tuple[str, Callable[[Tally], float]]] = {
    "spec_decode_num_drafts": ("Verify steps with draft tokens", lambda t: t.num_spec_steps),
    "spec_decode_num_draft_tokens": ("Drafted tokens", lambda t: t.num_draft_tokens),
    "spec_decode_num_accepted_tokens": (
        "Accepted draft tokens, bonus tokens excluded",
        lambda t: t.num_accepted_tokens,
    ),
    "prompt_tokens": ("Prompt tokens of finished requests", lambda t: t.num_prompt_tokens),
    "prompt_tokens_cached": (
        "Prompt tokens that were in the cache already",
        lambda t: t.num_cached_tokens,
    ),
    "num_preemptions": (
        "Times that a request gave up its cache to older ones",
        lambda t: t.num_preemptions,
    ),
    "generation_tokens": ("Delivered tokens of finished requests", lambda t: t.num_output_tokens),
    "verify_steps": ("Verify steps, drafted or not", lambda t: t.num_verify_steps),
    "positions_decided": ("Positions that a law judged", lambda t: t.num_decided),
    "accepted": ("Positions whose draft token was kept", lambda t: t.num_accepted_tokens),
    "deferred": ("Positions at which the rule deferred to the target", lambda t: t.num_deferred),
    "resampled": ("Positions drawn anew after a rejection", lambda t: t.num_recovered_tokens),
    "bonus": ("Tokens drawn behind a wholly accepted block", lambda t: t.num_bonus_tokens),
    "discarded": ("Judged tokens behind the end of an answer", lambda t: t.num_discarded_tokens),
    "draft_total_variation": (
        "Sum over decided positions of TV(target row, draft row)",
        lambda t: t.draft_tv_sum,
    ),
    "loss_total_variation": (
        "Sum over decided positions of TV(emitted row, target row)",
        lambda t: t.loss_tv_sum,
    ),
    "loss_kl": (
        "Sum over decided positions inside the target's support of KL(emitted, target), nats",
        lambda t: t.loss_kl_sum,
    ),
    "outside_support": (
        "Decided positions whose emitted row leaves the target's support (infinite KL)",
        lambda t: t.num_outside_support,
    ),
    "target_entropy": (
        "Sum over decided positions of the target row's entropy, nats",
        lambda t: t.target_entropy_sum,
    ),
    "tv_spent": (
        "Total variation that answers of lossy laws under limits have spent",
        lambda t: t.tv_spent_sum,
    ),
    "tv_budget": ("Sum of the budgets of these answers", lambda t: t.tv_budget_sum),
}
_MAXIMA: dict[str, tuple[str, Callable[[Tally], float]]] = {
    "loss_total_variation_max": (
        "Largest TV(emitted row, target row) of any position",
        lambda t: t.loss_tv_max,
    ),
    "loss_kl_max": (
        "Largest KL(emitted row, target row) of any position, nats",
        lambda t: t.loss_kl_max,
    ),
}
_LOADS = {
    "num_requests_running": ("Requests being decoded", "num_requests_running"),
    "num_requests_waiting": ("Requests waiting for room", "num_requests_waiting"),
    "kv_cache_usage_perc": ("Share of the KV cache that is taken, 0 to 1", "kv_cache_usage"),
}


class TotalsCollector(Collector):
    """Reads the engine's totals and load at each scrape."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterable[Metric]:
        """Yield every counter and gauge; without samples until the engine is ready."""
        is_ready = self._service.state in ("ready", "draining")
        totals = list(self._service.engine.totals.items()) if is_ready else []
        for name, (meaning, read) in _COUNTERS.items():
            counter = CounterMetricFamily(PREFIX + name, meaning, labels=LABELS)
            for labels, tally in totals:
                counter.add_metric(labels, read(tally))
            yield counter
        yield self._accepted_by_position(totals)
        yield self._limited(totals)
        for name, (meaning, read) in _MAXIMA.items():
            maximum = GaugeMetricFamily(PREFIX + name, meaning, labels=LABELS)
            for labels, tally in totals:
                maximum.add_metric(labels, read(tally))
            yield maximum
        status = self._service.engine.status() if is_ready else {}
        for name, (meaning, key) in _LOADS.items():
            gauge = GaugeMetricFamily(PREFIX + name, meaning)
            if status:
                gauge.add_metric((), status[key])
            yield gauge

    def _accepted_by_position(self, totals: list[tuple[tuple[str, str], Tally]]) -> Metric:
        counter = CounterMetricFamily(
            PREFIX + "spec_decode_num_accepted_tokens_per_pos",
            "Accepted draft tokens by position in the draft, from 0",
            labels=(*LABELS, "position"),
        )
        for labels, tally in totals:
            for position, count in enumerate(tally.accepted_by_depth):
                counter.add_metric((*labels, str(position)), count)
        return counter

    def _limited(self, totals: list[tuple[tuple[str, str], Tally]]) -> Metric:
        counter = CounterMetricFamily(
            PREFIX + "limited_requests",
            "Finished requests of lossy laws by the limits they were under",
            labels=(*LABELS, "limit"),
        )
        for labels, tally in totals:
            for name, count in tally.requests_by_limit.items():
                counter.add_metric((*labels, name), count)
        return counter


class ServerMetrics:
    """The registry of one application."""

    def __init__(self, service: Service) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(TotalsCollector(service))
        self._first = self._histogram(
            "time_to_first_token_seconds", "Request read to first token", _LATENCY_BUCKETS
        )
        self._gap = self._histogram(
            "inter_token_latency_seconds",
            "Gap between streamed outputs, each of one or several tokens",
            _GAP_BUCKETS,
        )
        self._whole = self._histogram(
            "e2e_request_latency_seconds", "Request read to last token", _LATENCY_BUCKETS
        )

    def observe(self, receipt: Receipt, timing: Timing) -> None:
        """Count the latencies of one finished answer."""
        labels = (receipt.law, receipt.drafter)
        if timing.first_at is None or timing.last_at is None:
            return
        self._first.labels(*labels).observe(timing.first_at - timing.received_at)
        self._whole.labels(*labels).observe(timing.last_at - timing.received_at)
        for gap in timing.gaps:
            self._gap.labels(*labels).observe(gap)

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """Return the page and its media type, in the format that `accept` prefers."""
        encode, media_type = choose_encoder(accept)
        return encode(self.registry), media_type

    def _histogram(self, name: str, meaning: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(PREFIX + name, meaning, LABELS, buckets=buckets, registry=self.registry)
