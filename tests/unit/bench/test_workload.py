"""Prompts from files, and prompts of an exact length."""

import gzip
import json

import pytest
from tests.support.tabular_engine import letter_tokenizer

from leeway.bench.default_workload import SOURCES
from leeway.bench.workload import Source, digest_of, encode, first_of_each, read_sources
from leeway.core.errors import ConfigError
from leeway.text.chat_template import ChatTemplate

TOKENIZER = letter_tokenizer(26)
TEMPLATE = "u{% for message in messages %}{{ message['content'] }}{% endfor %}zzz"
CHAT = ChatTemplate(TEMPLATE, TOKENIZER)
NO_CHAT = ChatTemplate(None, TOKENIZER)


def ids(text):
    return tuple(ord(letter) - ord("a") for letter in text)


def user(text):
    return ({"role": "user", "content": text},)


def write(folder, *lines):
    path = folder / "prompts.jsonl"
    path.write_text(
        "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    )
    return path


def test_every_shape_of_a_line(tmp_path):
    talk = [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]
    path = write(
        tmp_path,
        {"prompt": "abc"},
        {"id": "x", "messages": talk},
        "",
        {"question": "why", "answer": "so"},
        {"question_id": 81, "category": "writing", "turns": ["first", "then"]},
        {"task_id": "T/3", "prompt": "def", "test": "..."},
    )
    assert read_sources(path) == [
        Source("1", "abc"),
        Source("x", tuple(talk)),
        Source("4", user("why")),
        Source("81", user("first"), "writing"),
        Source("T/3", "def"),
    ]


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["{"], "line 1: not JSON"),
        ([{"prompt": "a"}, {"text": "b"}], "line 2: not a prompt; a line is"),
        ([{"prompt": ""}], "line 1: not a prompt"),
        ([{"messages": [{"content": "no role"}]}], "line 1: not a prompt"),
        ([["a"]], "line 1: not a prompt"),
        ([{"turns": []}], "line 1: not a prompt"),
        ([], "holds no prompt"),
        ([{"id": "a", "prompt": "x"}, {"id": "a", "prompt": "y"}], "has the id 'a' twice"),
    ],
)
def test_what_is_no_workload_is_refused(tmp_path, lines, says):
    with pytest.raises(ConfigError) as caught:
        read_sources(write(tmp_path, *lines))
    assert says in caught.value.message and "prompts.jsonl" in caught.value.message


def test_a_compressed_file_is_read_too(tmp_path):
    path = tmp_path / "prompts.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"prompt": "abc"}\n'))
    assert read_sources(path) == [Source("1", "abc")]
    path.write_bytes(b"no gzip")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_sources(path)


def test_the_first_of_each_category_in_the_order_of_the_file():
    names = [("a", "x"), ("b", None), ("c", "x"), ("d", "y"), ("e", "x"), ("f", None)]
    sources = [Source(name, name, category) for name, category in names]
    assert [one.prompt_id for one in first_of_each(sources, 1)] == ["a", "b", "d"]
    assert [one.prompt_id for one in first_of_each(sources, 2)] == ["a", "b", "c", "d", "f"]


def test_a_prompt_keeps_its_category():
    for length in (None, 6):
        [one] = encode([Source("a", "abc", "x")], TOKENIZER, NO_CHAT, length)
        assert one.category == "x"


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.jsonl' cannot be read"):
        read_sources(tmp_path / "none.jsonl")


def test_raw_text_is_taken_as_it_is_and_messages_get_the_template():
    raw, chat = encode([Source("a", "abc"), Source("b", user("abc"))], TOKENIZER, CHAT)
    assert raw.token_ids == ids("abc") and chat.token_ids == ids("uabczzz")
    assert raw.digest == digest_of((0, 1, 2)) != chat.digest
    [bare] = encode([Source("b", user("abc"))], TOKENIZER, NO_CHAT)
    assert bare.token_ids == ids("abc")


def test_an_exact_length_cuts_and_fills_before_the_end_of_the_template():
    sources = [Source("a", user("abcdef")), Source("b", "kl"), Source("c", user("m"))]
    made = encode(sources, TOKENIZER, CHAT, prompt_len=9)
    assert [len(prompt.token_ids) for prompt in made] == [9, 9, 9]
    assert made[0].token_ids == ids("uabcdezzz")
    assert made[1].token_ids == ids("klumzzzua")  # the next ones, then from the start again
    assert made[2].token_ids == ids("umuabczzz")
    [lone] = encode([Source("a", "abc")], TOKENIZER, CHAT, prompt_len=8)
    assert lone.token_ids == ids("abcabcab")


def test_a_length_that_the_template_alone_exceeds_is_refused():
    with pytest.raises(ConfigError, match="--prompt-len 3 is too short"):
        encode([Source("a", user("abc"))], TOKENIZER, CHAT, prompt_len=3)


def test_the_default_workload_is_a_workload():
    assert len({source.prompt_id for source in SOURCES}) == len(SOURCES) >= 5
    assert all(source.content[0]["role"] == "user" for source in SOURCES)
