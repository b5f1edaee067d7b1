"""Configuration: the table of every setting, once.

One row gives a setting's name (which is the flag `--name`, the variable `LEEWAY_NAME` and the file
key `name`), what it means, how it is read and its default. Help texts, `config show`, unknown-name
errors and the resolver all read this table.
"""

from __future__ import annotations

from leeway.core import config_values as read
from leeway.core.config_limits import LIMIT_SETTINGS
from leeway.core.config_server import SERVER_SETTINGS
from leeway.core.config_setting import Setting
from leeway.core.rng import MAX_SEED

DEFAULT_MODEL = "smollm2-135m-instruct"
WEIGHTS = ("int8", "int4", "16bit", "f32")
KV_CACHES = ("16bit", "u8")
ROW_SHAPES = ("stable", "fast")
PREFIX_CACHES = ("on", "off")
DRAFTERS = ("auto", "mtp", "mtp_ngram", "ngram", "draft_model", "none")
DRAFT_LENGTHS = ("fixed", "adaptive")
CASCADE_RULES = ("opt", "tokenv1", "tokenv2", "tokenv3")


_MODEL = (
    Setting(
        "model",
        "model",
        "A name that `leeway models` lists, a GGUF file or a safetensors folder.",
        read.text,
        DEFAULT_MODEL,
        short="-m",
        metavar="MODEL",
    ),
    Setting(
        "weights",
        "model",
        "Precision of the weights: int8, int4, 16bit or f32.",
        read.choice(*WEIGHTS),
        "int8",
        metavar="NAME",
        choices=WEIGHTS,
    ),
    Setting(
        "kv_cache",
        "model",
        "Precision of the KV cache: 16bit, or u8 (half the memory).",
        read.choice(*KV_CACHES),
        "16bit",
        metavar="NAME",
        choices=KV_CACHES,
    ),
    Setting(
        "kv_memory",
        "model",
        "Memory for the KV cache, like 2GiB.",
        read.optional(read.size_bytes),
        unset="from free memory",
        metavar="SIZE",
    ),
    Setting(
        "num_threads",
        "model",
        "Threads of a forward.",
        read.optional(read.integer(1, 1024)),
        unset="all cores",
        metavar="N",
    ),
    Setting(
        "row_shape",
        "model",
        "stable: plain and speculative decoding agree to the bit; fast: quicker single rows.",
        read.choice(*ROW_SHAPES),
        "stable",
        metavar="NAME",
        choices=ROW_SHAPES,
    ),
    Setting(
        "max_num_seqs",
        "model",
        "Requests decoded together; further ones wait.",
        read.integer(1, 256),
        8,
        metavar="N",
    ),
    Setting(
        "prefill_chunk_len",
        "model",
        "Longest part of a prompt that one forward carries, in tokens.",
        read.integer(16, 8192),
        512,
        metavar="N",
    ),
    Setting(
        "prefix_cache",
        "model",
        "on: requests that begin alike read what they share once; off: each reads its own prompt.",
        read.choice(*PREFIX_CACHES),
        "on",
        metavar="NAME",
        choices=PREFIX_CACHES,
    ),
    Setting(
        "cache_dir",
        "model",
        "Folder of fetched models.",
        read.optional(read.path),
        unset="leeway in the user's cache folder",
        metavar="PATH",
    ),
)

_DRAFTING = (
    Setting(
        "drafter",
        "drafting",
        "Who proposes: mtp (the model's draft head), ngram (looks up the text), mtp_ngram (both), "
        "draft_model (a second model), none; auto is mtp_ngram where there is a head (under lossy "
        "laws the head alone), else ngram.",
        read.choice(*DRAFTERS),
        "auto",
        metavar="NAME",
        choices=DRAFTERS,
    ),
    Setting(
        "draft_model",
        "drafting",
        "Model that drafts; implies the drafter draft_model.",
        read.optional(read.text),
        metavar="MODEL",
    ),
    Setting(
        "head",
        "drafting",
        "Draft head: a file or name of `leeway heads list`; implies mtp unless mtp_ngram is named.",
        read.optional(read.text),
        unset="the model's own",
        metavar="HEAD",
    ),
    Setting(
        "draft_weights",
        "drafting",
        "Precision of the weights of draft model or draft head: int8, int4, 16bit or f32.",
        read.choice(*WEIGHTS),
        "int8",
        metavar="NAME",
        choices=WEIGHTS,
    ),
    Setting(
        "num_speculative_tokens",
        "drafting",
        "Most draft tokens of one verify step; 0 drafts nothing.",
        read.integer(0, 32),
        3,
        metavar="N",
    ),
    Setting(
        "draft_length",
        "drafting",
        "fixed: always the most; adaptive: as many as have paid in this request so far.",
        read.choice(*DRAFT_LENGTHS),
        "fixed",
        metavar="NAME",
        choices=DRAFT_LENGTHS,
    ),
    Setting(
        "draft_temperature",
        "drafting",
        "Draft at this multiple of the request's temperature; 0 drafts greedily.",
        read.zero_or(0.01, 100),
        0.8,
        metavar="X",
    ),
    Setting(
        "draft_cost",
        "drafting",
        "What a draft token adds to a verify step, in plain steps; `leeway tune` measures it. With "
        "mtp_ngram: one that the head drafts.",
        read.optional(read.non_negative),
        unset="by drafter",
        metavar="X",
    ),
)

_LAW = (
    Setting(
        "typical_threshold",
        "law",
        "Typical acceptance with this delta; 0 is off, higher is stricter.",
        read.optional(read.number),
        unset="off",
        metavar="DELTA",
    ),
    Setting(
        "typical_eps",
        "law",
        "Cap of typical acceptance.",
        read.number,
        1.0,
        metavar="EPS",
    ),
    Setting(
        "cascade_threshold",
        "law",
        "Speculative cascade with this alpha; any number, 0 included, is on, higher is looser.",
        read.optional(read.number),
        unset="off",
        metavar="ALPHA",
    ),
    Setting(
        "cascade_rule",
        "law",
        "Rule of the cascade: opt, tokenv1, tokenv2 or tokenv3.",
        read.choice(*CASCADE_RULES),
        "tokenv3",
        metavar="NAME",
        choices=CASCADE_RULES,
    ),
    Setting(
        "law",
        "law",
        "Acceptance law that `leeway laws` lists.",
        read.optional(read.text),
        unset="rejection, unless a threshold chooses one",
        metavar="NAME",
    ),
    Setting(
        "law_option",
        "law",
        "Option of the law as key=value; may be repeated.",
        read.law_options,
        unset="none",
        is_list=True,
        metavar="KEY=VALUE",
    ),
)

_SAMPLING = (
    Setting(
        "max_tokens",
        "sampling",
        "Most tokens of an answer.",
        read.integer(1),
        256,
        short="-n",
        metavar="N",
    ),
    Setting("temperature", "sampling", "0 is greedy.", read.number, 1.0, metavar="T"),
    Setting(
        "top_k",
        "sampling",
        "Keep the k likeliest tokens; 0 is off.",
        read.integer(0),
        0,
        metavar="K",
    ),
    Setting(
        "top_p",
        "sampling",
        "Keep the likeliest tokens up to this mass.",
        read.number,
        1.0,
        metavar="P",
    ),
    Setting(
        "min_p",
        "sampling",
        "Drop tokens below this share of the likeliest one; 0 is off.",
        read.number,
        0.0,
        metavar="P",
    ),
    Setting(
        "seed",
        "sampling",
        "Same seed, same text.",
        read.optional(read.integer(0, MAX_SEED)),
        unset="a fresh one, which the receipt names",
        short="-s",
        metavar="N",
    ),
    Setting(
        "stop",
        "sampling",
        "Text that ends the answer; may be repeated.",
        read.texts,
        (),
        unset="none",
        is_list=True,
        metavar="TEXT",
    ),
    Setting(
        "presence_penalty",
        "sampling",
        "Off at 0.",
        read.number,
        0.0,
        metavar="X",
    ),
    Setting(
        "frequency_penalty",
        "sampling",
        "Off at 0.",
        read.number,
        0.0,
        metavar="X",
    ),
    Setting(
        "repetition_penalty",
        "sampling",
        "Off at 1.",
        read.number,
        1.0,
        metavar="X",
    ),
)

_OUTPUT = (
    Setting("json", "output", "Print JSON.", read.switch, False, is_switch=True),
    Setting("quiet", "output", "Print results only.", read.switch, False, is_switch=True),
    Setting("no_color", "output", "Print without colour.", read.switch, False, is_switch=True),
)

SETTINGS: dict[str, Setting] = {
    setting.name: setting
    for setting in (
        *_MODEL,
        *_DRAFTING,
        *_LAW,
        *LIMIT_SETTINGS,
        *SERVER_SETTINGS,
        *_SAMPLING,
        *_OUTPUT,
    )
}
