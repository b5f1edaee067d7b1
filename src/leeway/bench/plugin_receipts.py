"""Receipts of Leeway's plugin in a vLLM server: what its counters add up to over one request.

vLLM's answers have no place for a receipt, but its /metrics shows the plugin's counters, written
once a second. In: a server's URL; where requests begin and end. Out: the receipt of a request that
ran alone, under the names that Leeway's own server uses; nothing where others ran beside it.
"""

from __future__ import annotations

import re
import threading
import time
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

Counters = Mapping[tuple[str, str, str], Mapping[str, float]]
"""Field by name for each (law, guarantee, draft_rows)."""

SETTLED_S = 2.5
"""The plugin writes each second; the last step of a request is in by then."""
_TIMEOUT_S = 10.0
_MARK = "vllm:"
_LINE = re.compile(r"leeway_(\w+)_total\{([^}]*)\} (\S+)")
_LABEL = re.compile(r'(\w+)="([^"]*)"')


class PluginReceipts:
    """Receipts of one server's requests; may be asked from several threads.

    Args:
        api_url: of the API, ending in a path such as /v1.
        settled_s: how long after a request its counts are whole.
    """

    def __init__(self, api_url: str, settled_s: float = SETTLED_S) -> None:
        parts = urlsplit(api_url)
        self._url = f"{parts.scheme}://{parts.netloc}/metrics"
        self._settled_s = settled_s
        self._lock = threading.Lock()
        self._num_open = 0
        self._num_begun = 0

    def is_there(self) -> bool:
        """Return whether the server is vLLM's, whose plugin may count."""
        return any(line.startswith(_MARK) for line in self._text().splitlines())

    def begin(self) -> tuple[int, Counters] | None:
        """Return where the counters stand as a request begins; None while another runs."""
        with self._lock:
            self._num_open += 1
            self._num_begun += 1
            number, is_alone = self._num_begun, self._num_open == 1
        return (number, read_counters(self._text())) if is_alone else None

    def end(self, begun: tuple[int, Counters] | None) -> dict[str, Any] | None:
        """Return the receipt of a request that has ended, or None where it cannot be told.

        Waits until the counts are whole if the request ran alone.
        """
        with self._lock:
            is_alone = begun is not None and begun[0] == self._num_begun
        try:
            if begun is None or not is_alone:
                return None
            time.sleep(self._settled_s)
            after = read_counters(self._text())
        finally:
            with self._lock:
                self._num_open -= 1
                is_alone = begun is not None and begun[0] == self._num_begun
        return receipt_of(begun[1], after) if is_alone else None

    def _text(self) -> str:
        try:
            with urllib.request.urlopen(self._url, timeout=_TIMEOUT_S) as answer:
                text: str = answer.read().decode("utf-8", "replace")
                return text
        except (OSError, ValueError):
            return ""


def read_counters(text: str) -> dict[tuple[str, str, str], dict[str, float]]:
    """Return the plugin's counters in what /metrics says."""
    found: dict[tuple[str, str, str], dict[str, float]] = {}
    for name, labels, value in _LINE.findall(text):
        own = dict(_LABEL.findall(labels))
        key = own.get("law", ""), own.get("guarantee", ""), own.get("draft_rows", "")
        found.setdefault(key, {})[name] = float(value)
    return found


def receipt_of(before: Counters, after: Counters) -> dict[str, Any] | None:
    """Return what was added as a receipt; None where it is not one law's."""
    added = []
    for key, counts in after.items():
        known = before.get(key, {})
        more = {name: value - known.get(name, 0.0) for name, value in counts.items()}
        if more.get("verify_steps"):
            added.append((key, more))
    if len(added) != 1:
        return None
    (law, guarantee, draft_rows), counts = added[0]
    return {
        "law": law,
        "guarantee": guarantee,
        "draft_rows": draft_rows,
        "verify_steps": int(counts["verify_steps"]),
        "num_spec_steps": int(counts["verify_steps"]),
        "num_draft_tokens": int(counts["draft_tokens"]),
        "num_accepted_draft_tokens": int(counts["accepted"]),
        "output_tokens": int(counts["verify_steps"] + counts["accepted"]),
        "positions_decided": int(counts["positions_decided"]),
        "deferred": int(counts["deferred"]),
        "loss": _loss_of(counts),
    }


def _loss_of(counts: Mapping[str, float]) -> dict[str, float | int | None]:
    """Return the loss of all decided positions, taken to be that of those that were measured."""
    positions = counts["loss_positions"]
    outside = counts["outside_support"]
    inside = positions - outside
    return {
        "total_variation_mean": counts["loss_total_variation"] / positions if positions else None,
        "kl_mean": counts["loss_kl"] / inside if inside else None,
        "outside_support": round(outside / positions * counts["positions_decided"])
        if positions
        else None,
    }
