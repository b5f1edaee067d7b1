"""A Hugging Face tokenizer.json from the vocabulary that a GGUF file carries.

In: GGUF metadata. Out: `TokenizerData`. Two kinds of vocabulary are known: byte-level BPE ("gpt2"
with its pre-tokenizer named in `tokenizer.ggml.pre`) and SentencePiece BPE with scores and byte
fallback ("llama"). How text is split before BPE is not in the file, only its name is; the splits
below are the ones the models were trained with.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from leeway.core.errors import ModelError, did_you_mean
from leeway.core.types import TokenizerData

_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = 1, 2, 3, 4, 5, 6

# Control tokens that end an answer, besides the file's own eos; a template may close turns with
# one of these while eos is another.
END_TOKENS = (
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<end_of_turn>",
    "<|end|>",
)

_CONTRACTIONS = r"'s|'t|'re|'ve|'m|'ll|'d"
_GPT2 = rf"{_CONTRACTIONS}| ?\p{{L}}+| ?\p{{N}}+| ?[^\s\p{{L}}\p{{N}}]+|\s+(?!\S)|\s+"


def _letters_with_prefix(digits: str) -> str:
    """The split of Llama 3 and Qwen2, which differ in how many digits stay together."""
    return (
        rf"(?i:{_CONTRACTIONS})|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{digits}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )


# Pre-tokenizer name -> regular expressions, each applied to the pieces the one before it left.
_SPLITS: dict[str, tuple[str, ...]] = {
    "default": (r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"),
    "gpt-2": (_GPT2,),
    "smollm": (r"\p{N}", _GPT2),
    "qwen2": (_letters_with_prefix(r"\p{N}"),),
    "llama-bpe": (_letters_with_prefix(r"\p{N}{1,3}"),),
}
_WHOLE_WORDS_FIRST = frozenset({"llama-bpe"})  # a word that is a token is not built from merges
_NORMALISED = frozenset({"qwen2"})


def tokenizer_data(metadata: Mapping[str, Any], source: str) -> TokenizerData:
    """Build the tokenizer of a GGUF file; `source` names the file in errors.

    Raises:
        ModelError: the vocabulary is missing, inconsistent or of an unknown kind.
    """
    kind = metadata.get("tokenizer.ggml.model")
    tokens = _required(metadata, "tokens", source)
    token_types = _token_types(metadata, tokens, source)
    if kind == "gpt2":
        pre = str(metadata.get("tokenizer.ggml.pre", "default"))
        document = _byte_level(metadata, tokens, pre, source)
        add_bos = pre == "llama-bpe"
    elif kind == "llama":
        document = _sentencepiece(metadata, tokens, token_types, source)
        add_bos = True
    else:
        raise ModelError(
            f"{source}: tokenizer model {kind!r} is not supported; gpt2 (byte-level BPE) and llama "
            "(SentencePiece BPE) are"
        )
    document["added_tokens"] = _added_tokens(tokens, token_types)
    return TokenizerData(
        tokenizer_json=json.dumps(document, ensure_ascii=False),
        chat_template=metadata.get("tokenizer.chat_template"),
        bos_token_id=_token_id(metadata, "bos", tokens, source),
        eos_token_ids=_end_ids(metadata, tokens, token_types, source),
        add_bos=bool(metadata.get("tokenizer.ggml.add_bos_token", add_bos)),
    )


def _byte_level(
    metadata: Mapping[str, Any], tokens: Sequence[str], pre: str, source: str
) -> dict[str, Any]:
    if pre not in _SPLITS:
        raise ModelError(
            f"{source}: pre-tokenizer {pre!r} (tokenizer.ggml.pre) is not known"
            f"{did_you_mean(pre, _SPLITS)}; known are {', '.join(sorted(_SPLITS))}"
        )
    vocab = _vocabulary(tokens)
    merges = []
    for merge in _required(metadata, "merges", source):
        left, _, right = merge.partition(" ")
        if left not in vocab or right not in vocab or left + right not in vocab:
            raise ModelError(
                f"{source}: merge {merge!r} names a token outside the vocabulary; the file is "
                "inconsistent, convert or fetch it again"
            )
        merges.append((left, right))
    splits = [
        {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}
        for regex in _SPLITS[pre]
    ]
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": False,
    }
    return _document(
        normalizer={"type": "NFC"} if pre in _NORMALISED else None,
        pre_tokenizer={"type": "Sequence", "pretokenizers": [*splits, byte_level]},
        decoder=byte_level,
        model=_bpe(vocab, merges, ignore_merges=pre in _WHOLE_WORDS_FIRST),
    )


def _sentencepiece(
    metadata: Mapping[str, Any], tokens: Sequence[str], token_types: Sequence[int], source: str
) -> dict[str, Any]:
    scores = _required(metadata, "scores", source)
    if len(scores) != len(tokens):
        raise ModelError(
            f"{source}: {len(tokens)} tokens but {len(scores)} scores; convert or fetch it again"
        )
    vocab = _vocabulary(tokens)
    steps: list[dict[str, Any]] = [
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
    ]
    decoders: list[dict[str, Any]] = [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ]
    if metadata.get("tokenizer.ggml.add_space_prefix", True):
        steps.insert(0, {"type": "Prepend", "prepend": "▁"})
        decoders.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    unknown = _token_id(metadata, "unknown", tokens, source)
    return _document(
        normalizer={"type": "Sequence", "normalizers": steps},
        pre_tokenizer=None,
        decoder={"type": "Sequence", "decoders": decoders},
        model=_bpe(
            vocab,
            _merges_from_scores(vocab, tokens, token_types, scores),
            unk_token=None if unknown is None else tokens[unknown],
            byte_fallback=True,
            fuse_unk=True,
        ),
    )


def _merges_from_scores(
    vocab: Mapping[str, int],
    tokens: Sequence[str],
    token_types: Sequence[int],
    scores: Sequence[float],
) -> list[tuple[str, str]]:
    """Return the merges that make greedy BPE join the best-scored pair first."""
    usable = {
        token
        for token, token_type in zip(tokens, token_types, strict=True)
        if token_type == _NORMAL
    }
    ranked = []
    for token in usable:
        splits = ((token[:cut], token[cut:]) for cut in range(1, len(token)))
        ranked += [
            (-float(scores[vocab[token]]), vocab[left], vocab[right], left, right)
            for left, right in splits
            if left in usable and right in usable
        ]
    ranked.sort()
    return [(left, right) for *_, left, right in ranked]


def _document(**parts: object) -> dict[str, Any]:
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "post_processor": None,
        **parts,
    }


def _bpe(
    vocab: Mapping[str, int], merges: Sequence[tuple[str, str]], **settings: object
) -> dict[str, Any]:
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        **settings,
        "vocab": vocab,
        "merges": merges,
    }


def _vocabulary(tokens: Sequence[str]) -> dict[str, int]:
    """Return {token: id}; of equal tokens the first keeps its name, as encoding would choose it."""
    vocab: dict[str, int] = {}
    for index, token in enumerate(tokens):
        vocab.setdefault(token, index)
    return vocab


def _added_tokens(tokens: Sequence[str], token_types: Sequence[int]) -> list[dict[str, Any]]:
    return [
        {
            "id": index,
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": token_type != _USER_DEFINED,
        }
        for index, (token, token_type) in enumerate(zip(tokens, token_types, strict=True))
        if token_type in (_CONTROL, _USER_DEFINED, _UNKNOWN) and token
    ]


def _end_ids(
    metadata: Mapping[str, Any], tokens: Sequence[str], token_types: Sequence[int], source: str
) -> tuple[int, ...]:
    ids = [_token_id(metadata, kind, tokens, source) for kind in ("eos", "eot", "eom")]
    ids += [
        index
        for index, (token, token_type) in enumerate(zip(tokens, token_types, strict=True))
        if token_type == _CONTROL and token in END_TOKENS
    ]
    return tuple(dict.fromkeys(index for index in ids if index is not None))


def _token_id(
    metadata: Mapping[str, Any], kind: str, tokens: Sequence[str], source: str
) -> int | None:
    key = f"tokenizer.ggml.{kind}_token_id"
    value = metadata.get(key)
    if value is None:
        return None
    if not 0 <= value < len(tokens):
        raise ModelError(
            f"{source}: {key} is {value} but the vocabulary has {len(tokens)} tokens; convert or "
            "fetch it again"
        )
    return int(value)


def _token_types(metadata: Mapping[str, Any], tokens: Sequence[str], source: str) -> list[int]:
    types = metadata.get("tokenizer.ggml.token_type")
    if types is None:
        return [_NORMAL] * len(tokens)
    if len(types) != len(tokens):
        raise ModelError(
            f"{source}: {len(tokens)} tokens but {len(types)} token types; convert it again"
        )
    return [int(token_type) for token_type in types]


def _required(metadata: Mapping[str, Any], name: str, source: str) -> Sequence[Any]:
    value = metadata.get(f"tokenizer.ggml.{name}")
    if value is None or len(value) == 0:
        raise ModelError(
            f"{source} carries no tokenizer.ggml.{name}; convert the model with its tokenizer"
        )
    return value  # type: ignore[no-any-return]
