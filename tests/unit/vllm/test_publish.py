"""Counters as Prometheus shows them, and the log line."""

import logging
from contextlib import closing

import torch
from prometheus_client import CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector
from tests.support.vllm_steps import LABEL, verdicts

from leeway.vllm.publish import CounterFile, Publisher, folder_of, log_line
from leeway.vllm.tally import FIELDS, Label, Tally

COUNTS = {field: float(index + 1) for index, field in enumerate(FIELDS)}
LABELS = {"law": "typical", "guarantee": "none", "draft_rows": "rows"}


def value(folder, name, **labels):
    registry = CollectorRegistry()
    MultiProcessCollector(registry, path=str(folder))
    return registry.get_sample_value(name, {**LABELS, **labels})


def test_another_process_reads_every_counter(tmp_path):
    with closing(CounterFile(tmp_path)) as file:
        file.write({LABEL: COUNTS})
    assert {field: value(tmp_path, f"leeway_{field}_total") for field in FIELDS} == COUNTS
    assert value(tmp_path, "leeway_engaged") == 1


def test_the_last_write_stands(tmp_path):
    with closing(CounterFile(tmp_path)) as file:
        file.write({LABEL: COUNTS})
        file.write({LABEL: {**COUNTS, "accepted": 40.0}, Label("rejection", "x", "rows"): COUNTS})
    assert value(tmp_path, "leeway_accepted_total") == 40
    assert value(tmp_path, "leeway_accepted_total", law="rejection", guarantee="x") == 4


def test_the_folder_is_the_server_s_own_unless_prometheus_has_one(monkeypatch, tmp_path):
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
    own, is_shared = folder_of("abc12")
    assert own.name.endswith("-abc12")
    assert not is_shared
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    assert folder_of("abc12") == (tmp_path, True)


def test_the_log_line():
    counts = dict.fromkeys(FIELDS, 0.0) | {
        "verify_steps": 2,
        "draft_tokens": 4,
        "positions_decided": 4,
        "accepted": 3,
        "deferred": 2,
        "resampled": 1,
        "loss_positions": 4,
        "loss_total_variation": 0.6,
    }
    assert log_line(LABEL, counts) == (
        "[leeway] law=typical guarantee=none draft_rows=rows verify_steps=2 positions=4 accepted=3 "
        "deferred=2 resampled=1 draft_acceptance_rate=0.75 deferral_rate=0.5 kept_draft_rate=0.75 "
        "tokens_per_verify_step=2.5 loss_tv_mean=0.15 loss_kl_mean=0 outside_support=0"
    )


def test_the_end_writes_and_logs_what_was_added(tmp_path, caplog):
    tally = Tally(meter_every=0)
    publisher = Publisher(tally, tmp_path, interval_s=1000.0)
    tally.add(LABEL, torch.tensor([3, 1]), verdicts(), None)
    with caplog.at_level(logging.INFO, logger="vllm.leeway"):
        publisher.close()
        publisher.close()
    assert value(tmp_path, "leeway_accepted_total") == 3
    assert [record.message.split()[6] for record in caplog.records] == ["accepted=3"]
