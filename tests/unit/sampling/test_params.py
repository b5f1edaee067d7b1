"""Every out-of-range field is refused by name, with its value."""

import math

import pytest

from leeway.core.errors import RequestError
from leeway.core.types import SamplingParams
from leeway.sampling.params import check_sampling


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("temperature", 1e-40),
        ("temperature", 9e-6),
        ("temperature", math.nan),
        ("temperature", math.inf),
        ("top_k", -1),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("min_p", -0.2),
        ("max_tokens", -1),
        ("min_tokens", -1),
        ("min_tokens", 257),
        ("max_tokens", -5),
        ("seed", -1),
        ("seed", 2**64),
        ("stop", ("",)),
        ("stop_token_ids", (10,)),
        ("logit_bias", {10: 1.0}),
        ("logit_bias", {1: 101.0}),
        ("logit_bias", {1: math.nan}),
        ("presence_penalty", 2.5),
        ("frequency_penalty", -3.0),
        ("repetition_penalty", 0.0),
        ("repetition_penalty", 1e-38),
    ],
)
def test_out_of_range_is_refused_by_name(field, value):
    with pytest.raises(RequestError) as caught:
        check_sampling(SamplingParams(**{field: value}), vocab_size=10)
    assert caught.value.param == field
    assert field in caught.value.message and "allowed" in caught.value.message


def test_the_whole_range_is_allowed():
    params = SamplingParams(
        temperature=0,
        top_k=0,
        min_p=1.0,
        seed=2**64 - 1,
        max_tokens=1,
        stop=("x",),
        stop_token_ids=(9,),
        logit_bias={0: -100.0, 9: 100.0},
        presence_penalty=2,
        frequency_penalty=-2,
        repetition_penalty=0.5,
    )
    check_sampling(params, vocab_size=10)
