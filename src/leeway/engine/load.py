"""From a configuration to an engine: open the model, build backend, drafter and engine.

The one place where rooms are put together.
"""

from __future__ import annotations

from collections.abc import Callable

from leeway.acceptance.registry import build_law
from leeway.backends.openvino.backend import OpenVINOBackend
from leeway.core.config import EngineConfig
from leeway.core.errors import ConfigError
from leeway.drafters.base import Drafter
from leeway.drafters.draft_model import ModelDrafter
from leeway.drafters.ngram import NGramDrafter
from leeway.drafters.none import NoDrafter
from leeway.engine.compatibility import check_draft_rows
from leeway.engine.engine import Engine, Parts
from leeway.models.base import ModelFiles
from leeway.models.open import open_model
from leeway.text.chat_template import ChatTemplate
from leeway.text.tokenizer import Tokenizer

OnProgress = Callable[[str, int, int], None]


def load_engine(config: EngineConfig, on_progress: OnProgress | None = None) -> Engine:
    """Return a ready engine.

    Raises:
        ModelError: the model or the draft model cannot be had or used.
        ConfigError: the draft model does not share the target's vocabulary.
        LawError: the configured law is refused.
    """
    law = build_law(config.acceptance)
    check_draft_rows(law, config.drafter, gives_rows=config.drafter == ModelDrafter.name)
    files = open_model(config.model, cache_dir=config.cache_dir, on_progress=on_progress)
    tokenizer = Tokenizer(files.tokenizer)
    backend = _backend(files, config, config.weights)
    parts = Parts(
        model_name=files.name,
        backend=backend,
        tokenizer=tokenizer,
        chat_template=ChatTemplate(files.tokenizer.chat_template, tokenizer),
        drafter=build_drafter(config, tokenizer, backend, on_progress),
    )
    return Engine(parts, config)


def _backend(
    files: ModelFiles, config: EngineConfig, weights: str, kv_capacity_tokens: int | None = None
) -> OpenVINOBackend:
    return OpenVINOBackend(
        files,
        weights=weights,
        kv_cache=config.kv_cache,
        kv_memory_bytes=config.kv_memory_bytes,
        kv_capacity_tokens=kv_capacity_tokens,
        num_threads=config.num_threads,
        row_shape=config.row_shape,
        prefill_chunk_len=config.prefill_chunk_len,
        max_num_seqs=config.max_num_seqs,
    )


def build_drafter(
    config: EngineConfig,
    tokenizer: Tokenizer,
    target: OpenVINOBackend,
    on_progress: OnProgress | None = None,
) -> Drafter:
    """Return the drafter that a configuration names, for a target that is already loaded.

    Raises:
        ModelError: the draft model cannot be had or used.
        ConfigError: it does not share the target's vocabulary.
    """
    if config.drafter == "none":
        return NoDrafter()
    if config.drafter == "ngram":
        return NGramDrafter()
    if config.draft_model is None:
        raise ConfigError("drafter draft_model needs a model: give --draft-model NAME")
    files = open_model(config.draft_model, cache_dir=config.cache_dir, on_progress=on_progress)
    if Tokenizer(files.tokenizer).fingerprint() != tokenizer.fingerprint():
        raise ConfigError(
            f"draft model {config.draft_model!r} has another vocabulary than {config.model!r}; "
            "choose a draft model of the same family"
        )
    # As many slots as the target, so that a request the target admits always fits here too.
    backend = _backend(files, config, config.draft_weights, target.capacity_tokens)
    return ModelDrafter(backend, target.vocab_size)
