"""Log probabilities by an independent formula; the likeliest in order, ties to the lower id."""

import math

import numpy as np
import pytest

from leeway.core.errors import RequestError
from leeway.core.types import Request
from leeway.sampling.logprobs import check_logprobs, token_logprobs

PROBS = np.array([[0.1, 0.4, 0.2, 0.3], [0.25, 0.25, 0.25, 0.25], [0.0, 0.5, 0.5, 0.0]])


def entries(token_ids, num_top, shift=0.0):
    with np.errstate(divide="ignore"):
        return token_logprobs(np.log(PROBS) + shift, token_ids, num_top)


def test_the_log_of_the_softmax_whatever_is_added_to_all_logits():
    for shift in (0.0, 700.0, -700.0):
        for entry, expected in zip(entries((2, 0, 1), 0, shift), (0.2, 0.25, 0.5), strict=True):
            assert entry.logprob == pytest.approx(math.log(expected), abs=1e-12)
            assert entry.top == ()


def test_the_likeliest_in_order():
    first, tied, _ = entries((0, 3, 1), 3)
    assert [token for token, _ in first.top] == [1, 3, 2]
    assert [math.exp(value) for _, value in first.top] == pytest.approx([0.4, 0.3, 0.2])
    assert [token for token, _ in tied.top] == [0, 1, 2]


def test_more_than_there_are_gives_all_and_nothing_is_minus_infinity():
    entry = entries((0, 0, 0), 9)[2]
    assert entry.logprob == -math.inf
    assert [token for token, _ in entry.top] == [1, 2, 0, 3]


def test_float32_rows_are_summed_in_float64():
    row = np.zeros((1, 150_000), np.float32)
    (entry,) = token_logprobs(row, (7,), 0)
    assert entry.logprob == pytest.approx(-math.log(150_000), abs=1e-12)


@pytest.mark.parametrize("name", ["logprobs", "prompt_logprobs"])
@pytest.mark.parametrize("value", [-1, 21])
def test_out_of_range_is_refused_by_name(name, value):
    with pytest.raises(RequestError, match=f"^{name} is {value}; allowed: 0 to 20") as caught:
        check_logprobs(Request("a", (0,), **{name: value}))
    assert caught.value.param == name
    for fine in (None, 0, 20):
        check_logprobs(Request("a", (0,), **{name: fine}))
