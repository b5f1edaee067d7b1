"""Receipts: the tally as Prometheus counters and as a log line for each interval.

The process that judges is not the one that serves /metrics. It writes its sums into a file of
prometheus_client's multi-process format; the serving process reads such files. With
PROMETHEUS_MULTIPROC_DIR set (as vLLM does for several API servers) that is the one folder and
nothing else is needed; else a folder of this server's own.

In: a tally. Out: files and log lines. Only the first rank of each engine publishes.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from prometheus_client import REGISTRY
from prometheus_client.mmap_dict import MmapedDict, mmap_key
from prometheus_client.multiprocess import MultiProcessCollector

from leeway.vllm.tally import FIELDS, Label, Tally, rates

log = logging.getLogger("vllm.leeway")

PREFIX = "leeway_"
SHARED_DIR = "PROMETHEUS_MULTIPROC_DIR"
PERIOD_S = 1.0
_LABELS = ["law", "guarantee", "draft_rows"]
_MEANINGS = {
    "verify_steps": "Judged blocks",
    "draft_tokens": "Drafted tokens in judged blocks",
    "positions_decided": "Positions that a law judged",
    "accepted": "Positions whose draft token was kept",
    "deferred": "Positions at which the rule deferred to the target",
    "resampled": "Positions drawn anew after a rejection",
    "loss_positions": "Decided positions at which the loss was measured",
    "loss_total_variation": "Sum over them of TV(emitted row, target row)",
    "loss_kl": "Sum over them, inside the target's support, of KL(emitted, target), nats",
    "outside_support": "Of them those whose emitted row leaves the target's support",
}
_ENGAGED = "Whether this law has judged anything in this server"


def folder_of(instance_id: str) -> tuple[Path, bool]:
    """Return where a server's counters lie, and whether the folder is prometheus' own.

    Args:
        instance_id: vLLM's name of the server, the same in all its processes.
    """
    shared = os.environ.get(SHARED_DIR)  # prometheus_client's variable, read as it does
    if shared:
        return Path(shared), True
    return Path(tempfile.gettempdir()) / f"leeway-vllm-{os.getuid()}-{instance_id}", False


def serve_counters(instance_id: str) -> None:
    """Make this process' /metrics show the counters; removes their folder when it ends."""
    folder, is_shared = folder_of(instance_id)
    if is_shared:
        return
    folder.mkdir(mode=0o700, exist_ok=True)
    MultiProcessCollector(REGISTRY, path=str(folder))  # type: ignore[no-untyped-call]
    atexit.register(shutil.rmtree, folder, ignore_errors=True)


class CounterFile:
    """Writes snapshots in prometheus' format."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        name = f"leeway-{os.getpid()}.db"
        new: Any = MmapedDict  # carries no types
        self._counters = new(str(folder / f"counter_{name}"))
        self._gauges = new(str(folder / f"gauge_max_{name}"))

    def write(self, snapshot: dict[Label, dict[str, float]]) -> None:
        """Write every sum; the last write stands."""
        now = time.time()
        for label, counts in snapshot.items():
            values = [label.law, label.guarantee, label.draft_rows]
            for field in FIELDS:
                name = PREFIX + field
                key = mmap_key(name, f"{name}_total", _LABELS, values, _MEANINGS[field])
                self._counters.write_value(key, counts[field], now)
            name = PREFIX + "engaged"
            key = mmap_key(name, name, _LABELS, values, _ENGAGED)
            self._gauges.write_value(key, 1.0, now)

    def close(self) -> None:
        """Close both files; what was written stays."""
        self._counters.close()
        self._gauges.close()


class Publisher:
    """Writes a tally's sums each second, and logs what was added in each interval.

    Args:
        tally: read by a thread of its own, so that judging never waits for it.
        folder: where counters go.
        interval_s: seconds between log lines.
    """

    def __init__(self, tally: Tally, folder: Path, interval_s: float) -> None:
        self._tally = tally
        self._file = CounterFile(folder)
        self._interval_s = interval_s
        self._logged: dict[Label, dict[str, float]] = {}
        self._logged_at = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leeway-receipts", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def close(self) -> None:
        """Write and log what there is, and end; once."""
        if self._stop.is_set():
            return
        self._stop.set()
        self._thread.join()
        snapshot = self._tally.snapshot()
        self._file.write(snapshot)
        self._file.close()
        self._log(snapshot)

    def _run(self) -> None:
        while not self._stop.wait(PERIOD_S):
            snapshot = self._tally.snapshot()
            self._file.write(snapshot)
            if time.monotonic() - self._logged_at >= self._interval_s:
                self._logged_at = time.monotonic()
                self._log(snapshot)

    def _log(self, snapshot: dict[Label, dict[str, float]]) -> None:
        for label, counts in snapshot.items():
            before = self._logged.get(label, dict.fromkeys(FIELDS, 0.0))
            added = {field: counts[field] - before[field] for field in FIELDS}
            if added["verify_steps"]:
                log.info("%s", log_line(label, added))
        self._logged = snapshot


def log_line(label: Label, counts: dict[str, float]) -> str:
    """Return one law's receipt over an interval."""
    fields: dict[str, object] = {
        "law": label.law,
        "guarantee": label.guarantee,
        "draft_rows": label.draft_rows,
        "verify_steps": int(counts["verify_steps"]),
        "positions": int(counts["positions_decided"]),
        "accepted": int(counts["accepted"]),
        "deferred": int(counts["deferred"]),
        "resampled": int(counts["resampled"]),
        **{name: _show(value) for name, value in rates(counts).items()},
        "outside_support": int(counts["outside_support"]),
    }
    return "[leeway] " + " ".join(f"{name}={value}" for name, value in fields.items())


def _show(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g}"
