"""Expected ids were checked against an independent tokenizer on these very vocabularies."""

import json
from typing import Any

import pytest
import tokenizers

from leeway.core.errors import ModelError
from leeway.models.tokenizer_from_gguf import tokenizer_data

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6

LETTERS = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
# fmt: off
MERGES = [
    "1 2", "12 3", "3 4", "Ġ Ġ", "ĠĠ ĠĠ", "' s", "' S", "a b", "! !",
    "? !", "Ċ Ċ", "č Ċ", "Ġ a", "Ġa b", "Ġ (", "( )", "- -", "Ġ Ċ",
    "Ã ©", "c a", "f Ã©", "ca fÃ©", "= =", "$ 1", "/ a", "ĉ a", "ĠĠ Ċ",
    "Ù £", "' l", "'l l",
]
# fmt: on
SPECIAL = ["<|im_start|>", "<|im_end|>", "<tool>"]

TEXTS = (
    "ab's AB'S x'll",
    "1234 123 12",
    "    ab  ab ab",
    "()==--!!?!$12/ab",
    "ab\n\n  ab \n \n",
    "a\r\n\r\n\tab",
    "café ٣٣ 12½",
    "<|im_start|>ab<|im_end|>\n<tool>ab",
    " (ab)",
    "!\n?!\n\nab 12\t ",
)

EXPECTED = {
    "gpt-2": (
        "ab 's Ġ A B ' S Ġ x 'll",
        "123 4 Ġ 123 Ġ 12",
        "ĠĠ Ġ Ġ ab Ġ Ġ ab Ġ ab",
        "() == -- !! ?! $ 12 / ab",
        "ab ĊĊ Ġ Ġ ab ĠĊ ĠĊ",
        "a čĊ čĊ ĉ ab",
        "cafÃ© Ġ Ù£ Ù£ Ġ 12 Â ½",
        "<|im_start|> ab <|im_end|> Ċ <tool> ab",
        "Ġ( ab )",
        "! Ċ ?! Ċ Ċ ab Ġ 12 ĉ Ġ",
    ),
    "default": (
        "ab ' s Ġ A B ' S Ġ x ' l l",
        "123 4 Ġ 123 Ġ 12",
        "ĠĠ Ġ Ġ ab Ġ Ġ ab Ġ ab",
        "() == -- !! ?! $ 12 / ab",
        "ab ĊĊ Ġ Ġ ab ĠĊ ĠĊ",
        "a čĊ čĊ ĉ ab",
        "cafÃ© Ġ Ù£ Ù£ Ġ 12 Â ½",
        "<|im_start|> ab <|im_end|> Ċ <tool> ab",
        "Ġ ( ab )",
        "! Ċ ?! Ċ Ċ ab Ġ 12 ĉ Ġ",
    ),
    "llama-bpe": (
        "ab 's Ġ A B 'S Ġ x 'll",
        "123 4 Ġ 123 Ġ 12",
        "ĠĠ Ġ Ġab Ġ Ġab Ġab",
        "() == -- !! ?! $ 12 / ab",
        "ab ĊĊ Ġ Ġab ĠĊ ĠĊ",
        "a čĊ čĊ ĉ ab",
        "cafÃ© Ġ Ù£ Ù£ Ġ 12 Â ½",
        "<|im_start|> ab <|im_end|> Ċ <tool> ab",
        "Ġ( ab )",
        "! Ċ ?! ĊĊ ab Ġ 12 ĉ Ġ",
    ),
    "smollm": (
        "ab 's Ġ A B ' S Ġ x 'll",
        "1 2 3 4 Ġ 1 2 3 Ġ 1 2",
        "ĠĠ Ġ Ġ ab Ġ Ġ ab Ġ ab",
        "() == -- !! ?! $ 1 2 / ab",
        "ab ĊĊ Ġ Ġ ab ĠĊ ĠĊ",
        "a čĊ čĊ ĉ ab",
        "cafÃ© Ġ Ù£ Ù£ Ġ 1 2 Â ½",
        "<|im_start|> ab <|im_end|> Ċ <tool> ab",
        "Ġ( ab )",
        "! Ċ ?! Ċ Ċ ab Ġ 1 2 ĉ Ġ",
    ),
    "qwen2": (
        "ab 's Ġ A B 'S Ġ x 'll",
        "1 2 3 4 Ġ 1 2 3 Ġ 1 2",
        "ĠĠ Ġ Ġ ab Ġ Ġ ab Ġ ab",
        "() == -- !! ?! $ 1 2 / ab",
        "ab ĊĊ Ġ Ġ ab ĠĊ ĠĊ",
        "a čĊ čĊ ĉ ab",
        "cafÃ© Ġ Ù£ Ù£ Ġ 1 2 Â ½",
        "<|im_start|> ab <|im_end|> Ċ <tool> ab",
        "Ġ( ab )",
        "! Ċ ?! ĊĊ ab Ġ 1 2 ĉ Ġ",
    ),
}


def byte_level(pre: str | None = "gpt-2", **changes: Any) -> dict[str, Any]:
    tokens = [*LETTERS, *(merge.replace(" ", "") for merge in MERGES), *SPECIAL]
    metadata = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [NORMAL] * (len(tokens) - 3) + [CONTROL] * 2 + [USER_DEFINED],
        "tokenizer.ggml.merges": MERGES,
        "tokenizer.ggml.eos_token_id": len(tokens) - 2,
        "tokenizer.ggml.bos_token_id": len(tokens) - 3,
    }
    if pre is not None:
        metadata["tokenizer.ggml.pre"] = pre
    return metadata | {f"tokenizer.ggml.{key}": value for key, value in changes.items()}


def load(metadata: dict[str, Any]) -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_str(tokenizer_data(metadata, "m.gguf").tokenizer_json)


def spell(tokenizer: tokenizers.Tokenizer, text: str) -> str:
    return " ".join(tokenizer.encode(text, add_special_tokens=False).tokens)


@pytest.mark.parametrize("pre", EXPECTED)
def test_every_split_gives_the_reference_tokens(pre: str) -> None:
    tokenizer = load(byte_level(pre))
    assert tuple(spell(tokenizer, text) for text in TEXTS) == EXPECTED[pre]
    for text in TEXTS:
        ids = tokenizer.encode(text).ids
        assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_no_name_of_a_split_means_the_default_one() -> None:
    tokenizer = load(byte_level(None))
    assert tuple(spell(tokenizer, text) for text in TEXTS) == EXPECTED["default"]


def test_qwen2_composes_characters_first() -> None:
    assert spell(load(byte_level("qwen2")), "cafe\u0301") == "cafÃ©"
    assert spell(load(byte_level("gpt-2")), "cafe\u0301") == "ca f e Ì ģ"


def test_special_tokens_are_one_id_and_control_ones_are_special() -> None:
    tokenizer = load(byte_level())
    first = len(LETTERS) + len(MERGES)
    assert tokenizer.encode("<|im_start|><tool><|im_end|>").ids == [first, first + 2, first + 1]
    assert tokenizer.decode([first, first + 2, first + 1], skip_special_tokens=True) == "<tool>"


def test_end_tokens_are_the_files_own_and_those_that_close_a_turn() -> None:
    first = len(LETTERS) + len(MERGES)
    data = tokenizer_data(byte_level(eos_token_id=5, eot_token_id=7, eom_token_id=5), "m.gguf")
    assert data.eos_token_ids == (5, 7, first + 1)
    assert data.bos_token_id == first


@pytest.mark.parametrize(
    ("pre", "own", "expected"),
    [
        ("gpt-2", None, False),
        ("llama-bpe", None, True),
        ("llama-bpe", False, False),
        ("qwen2", True, True),
    ],
)
def test_whether_the_begin_token_is_added(pre: str, own: bool | None, expected: bool) -> None:
    changes = {} if own is None else {"add_bos_token": own}
    assert tokenizer_data(byte_level(pre, **changes), "m.gguf").add_bos is expected


WORDS = ["▁", "he", "ll", "ell", "hell", "hello", "▁hello", "▁w", "or", "▁wor", "ld", "▁world"]
WORDS += ["▁▁", "▁▁▁▁", "12"]
RANKED = ["▁▁", "he", "ll", "or", "▁w", "▁▁▁▁", "hell", "ld", "hello", "▁hello", "▁wor", "▁world"]
RANKED += ["12", "ell"]
CHARACTERS = list("helowrd12.,'()é世")

SENTENCEPIECE_EXPECTED = {
    "hello world": ("▁hello ▁world", "hello ▁world"),
    "hello  world": ("▁hello ▁▁ w or ld", "hello ▁▁ w or ld"),
    "  hello": ("▁▁ ▁hello", "▁▁ hello"),
    "    ": ("▁▁▁▁ ▁", "▁▁▁▁"),
    "": ("", ""),
    "héllo 世界 🙂": (
        "▁ h é ll o ▁ 世 <0xE7> <0x95> <0x8C> ▁ <0xF0> <0x9F> <0x99> <0x82>",
        "h é ll o ▁ 世 <0xE7> <0x95> <0x8C> ▁ <0xF0> <0x9F> <0x99> <0x82>",
    ),
    "12.12 1": ("▁ 12 . 12 ▁ 1", "12 . 12 ▁ 1"),
    "<|user|>hello<|user|>": ("<|user|> ▁hello <|user|>", "<|user|> hello <|user|>"),
    "wor'ld(ell)": ("▁wor ' ld ( ell )", "w or ' ld ( ell )"),
    "a\nb\t": ("▁ <0x61> <0x0A> <0x62> <0x09>", "<0x61> <0x0A> <0x62> <0x09>"),
}


def sentencepiece(**changes: Any) -> dict[str, Any]:
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    types = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, *[NORMAL] * len(WORDS + CHARACTERS)]
    scores = [0.0] * len(tokens)
    scores += [-float(RANKED.index(word)) if word in RANKED else -50.0 for word in WORDS]
    scores += [-100.0 - index for index in range(len(CHARACTERS))]
    metadata = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [*tokens, *WORDS, *CHARACTERS, "<|user|>"],
        "tokenizer.ggml.token_type": [*types, USER_DEFINED],
        "tokenizer.ggml.scores": [*scores, 0.0],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }
    return metadata | {f"tokenizer.ggml.{key}": value for key, value in changes.items()}


@pytest.mark.parametrize("text", SENTENCEPIECE_EXPECTED)
def test_sentencepiece_gives_the_reference_tokens(text: str) -> None:
    with_prefix, without = SENTENCEPIECE_EXPECTED[text]
    prefixed = load(sentencepiece())
    assert spell(prefixed, text) == with_prefix
    assert spell(load(sentencepiece(add_space_prefix=False)), text) == without
    if "<|user|>" not in text:
        assert prefixed.decode(prefixed.encode(text).ids) == text


def test_sentencepiece_adds_the_begin_token() -> None:
    data = tokenizer_data(sentencepiece(), "m.gguf")
    assert (data.add_bos, data.bos_token_id, data.eos_token_ids) == (True, 1, (2,))
    assert not tokenizer_data(sentencepiece(add_bos_token=False), "m.gguf").add_bos


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (byte_level(model=None), "tokenizer model None is not supported"),
        (byte_level("mystery"), "pre-tokenizer 'mystery' .* known are default, gpt-2, llama-bpe"),
        (byte_level("smolm"), "did you mean 'smollm'"),
        (byte_level(tokens=[]), r"carries no tokenizer\.ggml\.tokens"),
        (byte_level(merges=["q q"]), "merge 'q q' names a token outside the vocabulary"),
        (byte_level(merges=["nospace"]), "merge 'nospace' names a token outside"),
        (byte_level(token_type=[1]), "1 token types"),
        (byte_level(eos_token_id=-1), "eos_token_id is -1"),
        (sentencepiece(scores=[0.0]), "1 scores"),
        (sentencepiece(scores=[]), r"carries no tokenizer\.ggml\.scores"),
    ],
)
def test_inconsistent_vocabularies_are_refused(metadata: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        tokenizer_data(metadata, "m.gguf")
    assert "m.gguf" in caught.value.message


def test_missing_token_types_mean_normal_tokens() -> None:
    metadata = byte_level()
    del metadata["tokenizer.ggml.token_type"]
    document = json.loads(tokenizer_data(metadata, "m.gguf").tokenizer_json)
    assert document["added_tokens"] == []
