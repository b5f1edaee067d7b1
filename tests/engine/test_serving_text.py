"""Characters of several tokens, for every law with every drafter."""

import pytest
from tests.support.byte_tokens import BYTES, CHARACTERS, spell, spelling_table
from tests.support.serving_cases import SERVED_INSIDE, case_label, serve
from tests.support.tabular_engine import run_all, text, token_ids

from leeway.backends.tabular import random_table
from leeway.core.types import Request, SamplingParams

every_law = pytest.mark.parametrize(("law", "drafter"), SERVED_INSIDE, ids=case_label)


def run(law, drafter, tables, **sampling):
    engine = spell(serve(law, drafter, *tables))
    return run_all(engine, Request("a", (0, 0, 0), SamplingParams(**sampling)))["a"]


@every_law
def test_t13_characters_come_whole_wherever_the_answer_is_cut(law, drafter):
    tables = (spelling_table(1), spelling_table(2))
    for max_tokens in range(1, 14):
        deltas = run(law, drafter, tables, seed=3, max_tokens=max_tokens)
        raw = bytes(BYTES[one] for one in token_ids(deltas))
        assert len(raw) == max_tokens
        whole = raw.decode(errors="ignore")
        is_cut = whole.encode() != raw
        assert text(deltas) == whole + "\ufffd" * is_cut
        assert set(whole) <= set(CHARACTERS)
        assert all("\ufffd" not in delta.text for delta in deltas[:-1])


@every_law
def test_t13_bytes_that_are_no_text_are_replaced_and_harm_nothing(law, drafter):
    tables = (random_table(len(BYTES), 1, seed=1), random_table(len(BYTES), 1, seed=2))
    for seed in range(3):
        deltas = run(law, drafter, tables, seed=seed, max_tokens=30)
        raw = bytes(BYTES[one] for one in token_ids(deltas))
        assert text(deltas) == raw.decode(errors="replace")


@every_law
def test_t13_a_stop_string_of_such_characters_is_found(law, drafter):
    tables = (spelling_table(1), spelling_table(2))
    whole = text(run(law, drafter, tables, seed=3, max_tokens=40))
    stop = whole[5:7]
    deltas = run(law, drafter, tables, seed=3, max_tokens=40, stop=(stop,))
    begin = whole.index(stop)
    assert text(deltas) == whole[:begin]
    assert len(token_ids(deltas)) == len(whole[: begin + 2].encode())
