"""Texts under a model behind a server, by the log probabilities of an echoed prompt."""

import json
import math

import pytest
from tests.support.openai_server import fake_server

from leeway.core.errors import BackendError, ConfigError
from leeway.quality.likelihood import Text, read_texts, score_text, sum_up

TEXT = Text("ab ", "cd e", "exact")


def echo(offsets, logs):
    columns = {"text_offset": offsets, "token_logprobs": logs, "tokens": ["?"] * len(logs)}
    return json.dumps({"choices": [{"text": "", "logprobs": columns}]}).encode()


def test_tokens_that_begin_in_the_completion_count():
    content = echo([0, 2, 3, 5], [None, -9.0, -0.5, -1.5])
    with fake_server(lambda body: (200, [content])) as server:
        assert score_text(server.url, "tiny", TEXT) == [-0.5, -1.5]
    [(path, body)] = server.bodies
    assert path == "/v1/completions" and body["prompt"] == "ab cd e" and body["model"] == "tiny"
    assert (body["echo"], body["max_tokens"]) == (True, 0)


@pytest.mark.parametrize(
    ("status", "content", "says"),
    [
        (400, b'{"error": {"message": "echo is refused"}}', "echo is refused"),
        (200, b'{"choices": [{"text": "x"}]}', "has to know `echo` with `logprobs`"),
        (200, b'{"choices": [{"logprobs": null}]}', "gave no log probabilities of a prompt"),
        (200, b"no json", "not JSON"),
    ],
)
def test_a_server_that_cannot_is_named(status, content, says):
    with (
        fake_server(lambda body: (status, [content])) as server,
        pytest.raises(BackendError, match=says),
    ):
        score_text(server.url, None, TEXT)


def test_sums_by_hand():
    texts = [Text("p", "c", "exact"), Text("p", "c", "soft"), Text("p", "c", "exact")]
    exact, soft = sum_up(texts, [[-1.0, -3.0], [-2.0], [-2.0, -math.inf]])
    assert (exact.arm, exact.num_texts, exact.num_tokens, exact.num_impossible) == (
        "exact",
        2,
        4,
        1,
    )
    assert exact.mean.value == pytest.approx(-2.0)
    assert exact.perplexity == pytest.approx(math.exp(2.0))
    assert soft.mean.value == -2.0 and soft.mean.low is None
    [nothing] = sum_up(texts[:1], [[]])
    assert nothing.mean is None and nothing.perplexity is None


def test_files(tmp_path):
    path = tmp_path / "texts.jsonl"
    path.write_text(
        '{"prompt": "a", "completion": "b", "arm": "x"}\n{"prompt": "c", "completion": ""}\n'
    )
    assert read_texts(path) == [Text("a", "b", "x"), Text("c", "", "texts")]
    path.write_text('{"completion": "b"}\n')
    with pytest.raises(ConfigError, match=r"texts.jsonl, line 1: a line is"):
        read_texts(path)
    path.write_text("\n")
    with pytest.raises(ConfigError, match="holds no text"):
        read_texts(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_texts(tmp_path / "none")
