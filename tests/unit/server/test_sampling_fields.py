"""Sampling fields: each reaches SamplingParams; max_tokens has one meaning."""

import pytest
from tests.server.fake_service import FakeBackend

from leeway.core.errors import RequestError
from leeway.server.sampling_fields import (
    COMPLETION_MAX_TOKENS,
    MAX_STOP_STRINGS,
    read_max_tokens,
    read_sampling,
    read_stop,
    room_for_answer,
)
from leeway.server.schema import ChatFields, CompletionFields


def chat(**fields):
    return ChatFields(messages=[], **fields)


def test_every_field_reaches_the_parameters():
    given = {
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 7,
        "min_p": 0.1,
        "seed": 2**63,
        "min_tokens": 3,
        "ignore_eos": True,
        "presence_penalty": 0.25,
        "frequency_penalty": -0.5,
        "repetition_penalty": 1.25,
    }
    fields = chat(**given, stop_token_ids=[3], logit_bias={"5": -1.5})
    params = read_sampling(fields, 11, ("END",))
    assert {name: getattr(params, name) for name in given} == given
    assert (params.stop, params.stop_token_ids, params.max_tokens) == (("END",), (3,), 11)
    assert dict(params.logit_bias) == {5: -1.5}


def test_top_k_minus_one_is_off():
    assert read_sampling(chat(top_k=-1), 1).top_k == 0
    assert read_sampling(chat(top_k=-2), 1).top_k == -2


def test_stop_strings_have_a_cap():
    assert read_stop("END") == ("END",)
    assert len(read_stop(["x"] * MAX_STOP_STRINGS)) == MAX_STOP_STRINGS
    with pytest.raises(RequestError, match="stop has 17 strings; allowed: up to 16"):
        read_stop(["x"] * 17)
    with pytest.raises(RequestError, match="stop_sequences is ''; allowed: non-empty") as caught:
        read_stop(["x", ""], "stop_sequences")
    assert caught.value.param == "stop_sequences"


@pytest.mark.parametrize("key", ["a", "-1", "1.0", "", "²", "9" * 5000])
def test_a_logit_bias_key_must_be_a_token_id(key):
    with pytest.raises(RequestError, match="logit_bias has the key"):
        read_sampling(chat(logit_bias={key: 1.0}), 1)


def test_max_tokens_by_either_name():
    assert read_max_tokens(chat(max_tokens=5)) == 5
    assert read_max_tokens(chat(max_completion_tokens=6)) == 6
    assert read_max_tokens(chat(max_tokens=6, max_completion_tokens=6)) == 6
    assert read_max_tokens(chat()) is None
    assert read_max_tokens(CompletionFields(prompt="x")) == COMPLETION_MAX_TOKENS


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize("value", [-1, -3])
def test_max_tokens_below_zero_is_refused_under_its_own_name(name, value):
    with pytest.raises(RequestError, match=f"{name} is {value}; allowed: 0 ") as caught:
        read_max_tokens(chat(**{name: value}))
    assert caught.value.param == name


def test_two_different_limits_are_refused():
    with pytest.raises(RequestError, match="max_tokens is 5 and max_completion_tokens 6"):
        read_max_tokens(chat(max_tokens=5, max_completion_tokens=6))


def test_room_is_what_context_and_cache_leave():
    assert room_for_answer(FakeBackend(context_len=100), 30) == 70
    assert room_for_answer(FakeBackend(context_len=100, capacity_tokens=51), 30) == 18
    assert room_for_answer(FakeBackend(context_len=100), 100) == 1
