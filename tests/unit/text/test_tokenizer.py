import itertools
import json
from typing import Any

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tests.support.tiny_models import SPECIAL, tiny_tokenizer_json, vocabulary

from leeway.core.errors import ModelError, RequestError
from leeway.core.types import TokenizerData
from leeway.text.tokenizer import Tokenizer


def make(document: str | None = None, *, add_bos: bool = False, bos: int | None = 0) -> Tokenizer:
    return Tokenizer(TokenizerData(document or tiny_tokenizer_json(), None, bos, (2, 0), add_bos))


def sentencepiece(*, prefix: bool) -> Tokenizer:
    """A byte-fallback tokenizer; token 3 + b is the byte b."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    tokens += ["▁", "▁a", "a", "b", "é", "▁▁"]
    raw = tokenizers.Tokenizer(
        tokenizers.models.BPE(
            vocab={token: index for index, token in enumerate(tokens)},
            merges=[],
            unk_token="<unk>",
            byte_fallback=True,
        )
    )
    steps: list[Any] = [
        tokenizers.decoders.Replace("▁", " "),
        tokenizers.decoders.ByteFallback(),
        tokenizers.decoders.Fuse(),
    ]
    if prefix:
        steps.append(tokenizers.decoders.Strip(" ", 1, 0))
    raw.decoder = tokenizers.decoders.Sequence(steps)
    raw.add_special_tokens(["<s>", "</s>"])
    return make(raw.to_str(), bos=1)


TINY = make()
RAW = tokenizers.Tokenizer.from_str(tiny_tokenizer_json())


@given(st.text())
def test_text_survives_encoding_and_decoding(text: str) -> None:
    kept = text
    for special in SPECIAL:
        kept = kept.replace(special, "")
    assert TINY.decode(TINY.encode(kept)) == kept


@given(st.lists(st.integers(0, len(vocabulary()) - 1), max_size=12))
def test_decoding_equals_the_tokenizers_library(ids: list[int]) -> None:
    assert TINY.decode(ids) == RAW.decode(ids, skip_special_tokens=True)


def test_every_pair_and_triple_of_awkward_bytes_equals_the_library() -> None:
    byte_of = {TINY.token_bytes(index): index for index in range(3, 3 + 256)}
    awkward = [0x00, 0x41, 0x80, 0xA0, 0xBF, 0xC2, 0xE0, 0xED, 0xEF, 0xF0, 0xF4, 0xF8, 0xFF]
    ids = [byte_of[bytes([byte])] for byte in awkward]
    for length in (1, 2, 3):
        for sequence in itertools.product(ids, repeat=length):
            assert TINY.decode(sequence) == RAW.decode(list(sequence))


def test_special_tokens_are_one_id_and_decode_to_nothing() -> None:
    ids = TINY.encode("<|im_start|>hello<|im_end|>")
    assert ids == [1, vocabulary().index("hello"), 2]
    assert TINY.decode(ids) == "hello"
    assert [TINY.token_bytes(index) for index in ids] == [b"", b"hello", b""]


def test_begin_token_is_added_once_and_only_if_wanted() -> None:
    hello = vocabulary().index("hello")
    adding = make(add_bos=True)
    assert adding.encode("hello") == [0, hello]
    assert adding.encode("") == [0]
    assert adding.encode("<|endoftext|>hello") == [0, hello]
    assert adding.encode("hello", add_special=False) == [hello]
    assert make().encode("hello") == [hello]
    assert make(add_bos=True, bos=None).encode("hello") == [hello]


def test_truncation_and_padding_of_the_file_are_off() -> None:
    raw = tokenizers.Tokenizer.from_str(tiny_tokenizer_json())
    raw.enable_truncation(2)
    raw.enable_padding(length=8)
    hello = vocabulary().index("hello")
    assert make(raw.to_str()).encode("hello" * 3) == [hello] * 3


def test_names_and_ids() -> None:
    assert TINY.vocab_size == len(vocabulary())
    assert TINY.eos_token_ids == (2, 0)
    assert TINY.bos_token_id == 0
    assert TINY.token_text(2) == "<|im_end|>"
    assert TINY.token_id("<|im_end|>") == 2
    assert TINY.token_id("nothing") is None
    assert TINY.token_text(99999) is None
    assert TINY.token_text(-1) is None
    assert TINY.token_bytes(99999) == b""


def test_fingerprint_is_that_of_the_vocabulary() -> None:
    document = json.loads(tiny_tokenizer_json())
    assert make().fingerprint() == make(add_bos=True).fingerprint()
    document["model"]["vocab"]["x1"] = len(vocabulary())
    larger = make(json.dumps(document))
    assert larger.fingerprint() != TINY.fingerprint()
    first, second = "a", "b"
    vocab = document["model"]["vocab"]
    vocab[first], vocab[second] = vocab[second], vocab[first]
    assert make(json.dumps(document)).fingerprint() != larger.fingerprint()


def test_unpaired_surrogates_are_refused() -> None:
    with pytest.raises(RequestError, match="not valid Unicode"):
        TINY.encode("a\ud800b")


def test_added_tokens_that_are_not_special_are_text() -> None:
    raw = tokenizers.Tokenizer.from_str(tiny_tokenizer_json())
    raw.add_tokens(["<tool é>"])
    tokenizer = make(raw.to_str())
    ids = tokenizer.encode("<tool é>")
    assert ids == [len(vocabulary())]
    assert tokenizer.decode(ids) == "<tool é>"


def test_sentencepiece_bytes_and_spaces() -> None:
    tokenizer = sentencepiece(prefix=False)
    euro = [3 + byte for byte in "€".encode()]
    a = tokenizer.token_id("▁a")
    assert a is not None
    assert tokenizer.decode([a, *euro, 1, 2]) == " a€"
    assert tokenizer.decode([3 + 0x0A]) == "\n"


def test_sentencepiece_prefix_space_is_dropped_once() -> None:
    tokenizer = sentencepiece(prefix=True)
    a = tokenizer.token_id("▁a")
    wide = tokenizer.token_id("▁▁")
    assert a is not None
    assert wide is not None
    assert tokenizer.decode([a, a]) == "a a"
    assert tokenizer.decode([1, a]) == "a"
    assert tokenizer.decode([wide]) == " "
    assert tokenizer.decode([a, a], continues=True) == " a a"


@given(st.text(alphabet="ab é€🙂\n"))
def test_sentencepiece_equals_the_library_on_whole_characters(text: str) -> None:
    tokenizer = sentencepiece(prefix=True)
    ids = [3 + byte for byte in text.encode()]
    raw = tokenizer._inner
    assert tokenizer.decode(ids) == raw.decode(ids)


def test_metaspace_decoders_are_known() -> None:
    document = json.loads(tiny_tokenizer_json())
    for scheme, expected in (("always", "a"), ("first", "a"), ("never", " a")):
        document["decoder"] = {
            "type": "Metaspace",
            "replacement": "▁",
            "prepend_scheme": scheme,
            "split": False,
        }
        document["model"]["vocab"] = {"▁a": 0}
        document["model"]["merges"] = []
        document["added_tokens"] = []
        assert make(json.dumps(document)).decode([0]) == expected


@pytest.mark.parametrize(
    ("decoder", "message"),
    [
        ({"type": "WordPiece", "prefix": "##", "cleanup": True}, "decodes by WordPiece"),
        (None, "decodes by nothing"),
    ],
)
def test_other_decoders_are_refused(decoder: dict[str, Any] | None, message: str) -> None:
    document = json.loads(tiny_tokenizer_json()) | {"decoder": decoder}
    with pytest.raises(ModelError, match=message):
        make(json.dumps(document))


def test_a_broken_description_is_refused() -> None:
    with pytest.raises(ModelError, match="tokenizer cannot be loaded"):
        make("{}")
