import itertools

from hypothesis import given
from hypothesis import strategies as st
from tests.support.tiny_models import tiny_tokenizer_json, vocabulary

from leeway.core.types import TokenizerData
from leeway.text.detokenizer import Detokenizer
from leeway.text.tokenizer import Tokenizer

TOKENIZER = Tokenizer(TokenizerData(tiny_tokenizer_json(), None, 0, (2,)))
BYTE_IDS = {TOKENIZER.token_bytes(index): index for index in range(3, 3 + 256)}


def byte_ids(data: bytes) -> list[int]:
    return [BYTE_IDS[bytes([byte])] for byte in data]


@given(st.lists(st.lists(st.integers(0, len(vocabulary()) - 1), max_size=4), max_size=6))
def test_pieces_joined_are_the_whole(steps: list[list[int]]) -> None:
    detokenizer = Detokenizer(TOKENIZER)
    text = "".join(map(detokenizer.add, steps)) + detokenizer.finish()
    assert text == TOKENIZER.decode(itertools.chain(*steps))


def test_every_short_sequence_of_awkward_bytes() -> None:
    awkward = [0x41, 0x80, 0xBF, 0xC2, 0xE0, 0xED, 0xF0, 0xF4, 0xFF]
    for length in range(1, 5):
        for data in itertools.product(awkward, repeat=length):
            ids = byte_ids(bytes(data))
            detokenizer = Detokenizer(TOKENIZER)
            text = "".join(detokenizer.add([index]) for index in ids) + detokenizer.finish()
            assert text == TOKENIZER.decode(ids), data


@given(st.text(min_size=1))
def test_no_character_appears_before_it_is_complete(text: str) -> None:
    detokenizer = Detokenizer(TOKENIZER)
    shown = ""
    for index in byte_ids(text.encode()):
        shown += detokenizer.add([index])
        assert text.startswith(shown)
    assert shown == text
    assert detokenizer.finish() == ""


def test_a_character_is_held_until_its_last_byte() -> None:
    detokenizer = Detokenizer(TOKENIZER)
    *first, last = byte_ids("🙂".encode())
    assert [detokenizer.add([index]) for index in first] == ["", "", ""]
    assert detokenizer.add([last]) == "🙂"


def test_an_incomplete_end_is_one_replacement() -> None:
    detokenizer = Detokenizer(TOKENIZER)
    assert detokenizer.add(byte_ids(b"ok \xf0\x9f")) == "ok "
    assert detokenizer.finish() == "\ufffd"


def test_special_tokens_do_not_break_a_character() -> None:
    detokenizer = Detokenizer(TOKENIZER)
    first, second = byte_ids("é".encode())
    assert detokenizer.add([first, 1]) == ""
    assert detokenizer.add([2, second]) == "é"
