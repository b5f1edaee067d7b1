"""From a configuration to an engine: open the model, build backend, drafter and engine.

The one place where rooms are put together.
"""

from __future__ import annotations

from collections.abc import Callable

from leeway.acceptance.registry import build_law
from leeway.backends.openvino.backend import OpenVINOBackend
from leeway.backends.openvino.head import OpenVINOHead
from leeway.core.config import EngineConfig
from leeway.core.config_drafter import WITH_HEAD
from leeway.core.errors import ConfigError
from leeway.drafters.base import Drafter
from leeway.drafters.draft_model import ModelDrafter
from leeway.drafters.mtp import MTPDrafter
from leeway.drafters.mtp_ngram import MTPNGramDrafter
from leeway.drafters.ngram import NGramDrafter
from leeway.drafters.none import NoDrafter
from leeway.drafters.registry import DRAFTERS
from leeway.engine.compatibility import check_draft_rows
from leeway.engine.engine import Engine, Parts
from leeway.engine.self_check import check_lanes
from leeway.models.base import ModelFiles
from leeway.models.head_base import HeadFiles
from leeway.models.heads import find_head, open_head
from leeway.models.open import open_model
from leeway.scheduler.draft_length import USUAL_COSTS
from leeway.text.chat_template import ChatTemplate
from leeway.text.tokenizer import Tokenizer

OnProgress = Callable[[str, int, int], None]


def load_engine(config: EngineConfig, on_progress: OnProgress | None = None) -> Engine:
    """Return a ready engine.

    Raises:
        ModelError: the model or the draft model cannot be had or used.
        ConfigError: the draft model does not share the target's vocabulary.
        LawError: the configured law is refused.
        BackendError: the self-check finds no two ways to run the model that agree.
    """
    law = build_law(config.acceptance)
    if config.drafter != "auto":
        check_draft_rows(law, config.drafter, gives_rows=DRAFTERS[config.drafter].gives_rows)
    files = open_model(config.model, cache_dir=config.cache_dir, on_progress=on_progress)
    head_files = choose_head(config, files)
    if config.drafter == "auto" and head_files is None:
        check_draft_rows(law, NGramDrafter.name, gives_rows=NGramDrafter.gives_rows)
    tokenizer = Tokenizer(files.tokenizer)
    backend = _backend(files, config, config.weights)
    check = check_lanes(
        backend, config.num_speculative_tokens + 1, config.row_shape, backend.set_row_shape
    )
    drafter: Drafter = NoDrafter()
    if check.may_draft:
        drafter = build_drafter(
            config, files, backend, tokenizer, head_files=head_files, on_progress=on_progress
        )
    parts = Parts(
        model_name=files.name,
        backend=backend,
        tokenizer=tokenizer,
        chat_template=ChatTemplate(files.tokenizer.chat_template, tokenizer),
        drafter=drafter,
        drafter_settings=drafter.head.describe() if isinstance(drafter, MTPDrafter) else {},
        self_check=check,
    )
    return Engine(parts, config)


def choose_head(config: EngineConfig, files: ModelFiles) -> HeadFiles | None:
    """Return the head that a configuration asks for, or finds for the model; None drafts without.

    Raises:
        ModelError: the named head cannot be had or fits another model.
        ConfigError: a head is asked for and there is none.
    """
    if config.drafter not in {"auto", *WITH_HEAD}:
        return None
    if config.head is not None:
        return open_head(config.head, files, cache_dir=config.cache_dir)
    found = find_head(files, config.cache_dir)
    if found is None and config.drafter != "auto":
        raise ConfigError(
            f"drafter {config.drafter!r} (from {config.origin('drafter')}) needs a draft head, "
            f"and {config.model!r} has none; `leeway heads list` shows what there is, `leeway "
            f"heads train {config.model}` makes one, or use another --drafter",
            param="drafter",
        )
    return found


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


def build_drafter(  # noqa: PLR0917
    config: EngineConfig,
    files: ModelFiles,
    target: OpenVINOBackend,
    tokenizer: Tokenizer,
    head_files: HeadFiles | None,
    on_progress: OnProgress | None = None,
) -> Drafter:
    """Return the drafter that a configuration names, for a target that is already loaded.

    Args:
        config: names the drafter.
        files: the target's.
        target: loaded from them.
        tokenizer: the target's.
        head_files: what `choose_head` gave.
        on_progress: hears of downloads.

    Raises:
        ModelError: the draft model or head cannot be had or used.
        ConfigError: the draft model does not share the target's vocabulary.
    """
    if config.drafter == "none":
        return NoDrafter()
    if head_files is not None:
        return _with_head(_head(head_files, files, target, config), target.vocab_size, config)
    if config.drafter in {"ngram", "auto"}:
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


def _with_head(head: OpenVINOHead, vocab_size: int, config: EngineConfig) -> Drafter:
    """Return the head's drafter: alone for `mtp`, with n-grams for `mtp_ngram` and `auto`.

    Under `auto` n-grams draft under exact laws only.
    """
    if config.drafter == MTPDrafter.name:
        return MTPDrafter(head, vocab_size)
    given = config.draft_cost
    return MTPNGramDrafter(
        head,
        vocab_size,
        ngram_cost=USUAL_COSTS[NGramDrafter.name],
        head_cost=USUAL_COSTS[MTPDrafter.name] if given is None else given,
        lossy_ngrams=config.drafter != "auto",
    )


def _head(
    head_files: HeadFiles, files: ModelFiles, target: OpenVINOBackend, config: EngineConfig
) -> OpenVINOHead:
    # As many slots as the target, so that a request the target admits always fits here too.
    return OpenVINOHead(
        head_files,
        files,
        embedding=target.embedding,
        weights=config.draft_weights,
        kv_cache=config.kv_cache,
        kv_capacity_tokens=target.capacity_tokens,
        num_threads=config.num_threads,
        max_num_seqs=config.max_num_seqs,
        prefill_chunk_len=config.prefill_chunk_len,
    )
