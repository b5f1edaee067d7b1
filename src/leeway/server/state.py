"""State: what the routes of one application share."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import msgspec

from leeway.acceptance.base import Law
from leeway.acceptance.law_ceiling import LawCeiling
from leeway.core.config import ServerConfig
from leeway.core.errors import UnknownModelError
from leeway.core.receipt import Receipt
from leeway.server.deltas import Timing
from leeway.server.errors import refuse_unready
from leeway.server.metrics import ServerMetrics
from leeway.server.service_protocol import ServedEngine, Service

_SIZES = ("kv_cache_bytes", "capacity_tokens", "prefill_chunk_len", "INFERENCE_NUM_THREADS")


@dataclass(slots=True)
class ServerState:
    """One application's service, settings and metrics.

    Attributes:
        law: the configured one.
        started_at: Unix time, seconds; when the model is said to have been created.
        keep_alive_s: silence after which a stream sends a comment.
        max_body_bytes: largest request body that is read.
    """

    service: Service
    config: ServerConfig
    law: Law
    ceiling: LawCeiling
    metrics: ServerMetrics
    started_at: int
    keep_alive_s: float
    max_body_bytes: int
    _fingerprint: str = field(default="", init=False)

    def engine(self) -> ServedEngine:
        """Return the engine. Raises HTTPException (503) unless it is ready."""
        if self.service.state != "ready":
            refuse_unready(self.service.state, self.service.error)
        return self.service.engine

    def check_model(self, name: str | None) -> str:
        """Return the name of the served model, which a request may leave out.

        Raises:
            UnknownModelError: the request names another one.
        """
        served = self.engine().parts.model_name
        if name not in (None, served, self.config.engine.model):
            raise UnknownModelError(
                f"model {name!r} is not served here; this server has {served!r}", param="model"
            )
        return served

    def max_model_len(self) -> int:
        """Return the most tokens of prompt and answer together."""
        backend = self.engine().parts.backend
        return min(backend.context_len, backend.capacity_tokens)

    def fingerprint(self) -> str:
        """Return a short hash of what the server was set to that decides what a seed yields."""
        if not self._fingerprint:
            engine = self.engine()
            settings = engine.parts.backend.describe()
            head = engine.parts.drafter_settings
            facts = {
                "model": engine.parts.model_name,
                "backend": {name: settings[name] for name in settings if name not in _SIZES},
                "law": engine.law.info.name,
                "options": dict(engine.law.options),
                "limits": engine.config.limits,
                "drafter": engine.parts.drafter.name,
                "head": {name: head[name] for name in head if name not in _SIZES},
                "draft_model": engine.config.draft_model,
                "num_speculative_tokens": engine.config.num_speculative_tokens,
                "draft_length": engine.config.draft_length,
                "draft_cost": engine.config.draft_cost,
                "draft_temperature": engine.config.draft_temperature,
            }
            digest = hashlib.sha256(msgspec.json.encode(facts, order="deterministic"))
            self._fingerprint = "fp_" + digest.hexdigest()[:12]
        return self._fingerprint

    def report(self, receipt: Receipt, timing: Timing, is_whole: bool) -> None:
        """Take note of an answer that ended: its latencies, if it is whole."""
        if is_whole:
            self.metrics.observe(receipt, timing)
