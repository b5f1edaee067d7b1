"""Engines over tables: everything of the served loop but the network and the kernels."""

from __future__ import annotations

from collections.abc import Callable

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from leeway.backends.tabular import Table, TabularBackend
from leeway.core.config import EngineConfig, PrefixCacheName
from leeway.core.rng import Coins, KeyedCoins
from leeway.core.types import Acceptance, OutputDelta, Request, SamplingParams, TokenizerData
from leeway.drafters.base import Drafter
from leeway.drafters.draft_model import ModelDrafter
from leeway.drafters.ngram import NGramDrafter
from leeway.drafters.none import NoDrafter
from leeway.engine.engine import Engine, Parts
from leeway.text.chat_template import ChatTemplate
from leeway.text.tokenizer import Tokenizer as OurTokenizer

CHAT_TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"


def letter_tokenizer(vocab_size: int, eos_token_id: int | None = None) -> OurTokenizer:
    """Return a tokenizer whose token i is the i-th letter; the end token, if any, is special."""
    vocab = {chr(ord("a") + index): index for index in range(vocab_size)}
    if eos_token_id is not None:
        del vocab[chr(ord("a") + eos_token_id)]
        vocab["<eos>"] = eos_token_id
    raw = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    raw.decoder = decoders.ByteLevel()
    if eos_token_id is not None:
        raw.add_special_tokens([AddedToken("<eos>", special=True)])
    eos = () if eos_token_id is None else (eos_token_id,)
    return OurTokenizer(TokenizerData(raw.to_str(), CHAT_TEMPLATE, None, eos))


def make_engine(
    table: Table,
    *,
    order: int = 1,
    drafter: Drafter | str = "none",
    draft_table: Table | None = None,
    acceptance: Acceptance | None = None,
    num_speculative_tokens: int = 3,
    draft_temperature: float = 1.0,
    eos_token_id: int | None = None,
    make_coins: Callable[[int], Coins] = KeyedCoins,
    max_num_seqs: int = 8,
    prefix_cache: PrefixCacheName = "on",
    **backend_options: int,
) -> Engine:
    """Return an engine over a table, with a drafter by name or as an object."""
    backend = TabularBackend(table, order, **backend_options)
    vocab_size = backend.vocab_size
    if drafter == "draft_model":
        assert draft_table is not None
        drafter = ModelDrafter(TabularBackend(draft_table, order, **backend_options), vocab_size)
    elif drafter == "ngram":
        drafter = NGramDrafter()
    elif drafter == "none":
        drafter = NoDrafter()
    assert not isinstance(drafter, str)
    tokenizer = letter_tokenizer(vocab_size, eos_token_id)
    parts = Parts(
        model_name="table",
        backend=backend,
        tokenizer=tokenizer,
        chat_template=ChatTemplate(CHAT_TEMPLATE, tokenizer),
        drafter=drafter,
        make_coins=make_coins,
    )
    config = EngineConfig(
        num_speculative_tokens=num_speculative_tokens,
        draft_temperature=draft_temperature,
        max_num_seqs=max_num_seqs,
        prefix_cache=prefix_cache,
        acceptance=acceptance or Acceptance(),
    )
    return Engine(parts, config)


def run_all(engine: Engine, *requests: Request) -> dict[str, list[OutputDelta]]:
    """Add the requests, step until all are done, return each one's deltas."""
    for request in requests:
        engine.add(request)
    deltas: dict[str, list[OutputDelta]] = {request.request_id: [] for request in requests}
    while engine.has_work:
        for delta in engine.step():
            deltas[delta.request_id].append(delta)
    return deltas


def token_ids(deltas: list[OutputDelta]) -> tuple[int, ...]:
    """Return the joined output tokens."""
    return tuple(token_id for delta in deltas for token_id in delta.token_ids)


def text(deltas: list[OutputDelta]) -> str:
    """Return the joined output text."""
    return "".join(delta.text for delta in deltas)


def ask(prompt: tuple[int, ...] = (0,), name: str = "a", **sampling: object) -> Request:
    """Return a request with these sampling parameters."""
    return Request(name, prompt, SamplingParams(**sampling))
