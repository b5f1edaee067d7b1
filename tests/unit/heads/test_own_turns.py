"""User turns that the model writes itself: with an end, long enough, the same for a seed."""

from dataclasses import replace

import numpy as np
import pytest
from tests.support.tabular_engine import make_engine

from leeway.core.errors import ModelError
from leeway.engine.engine import Engine
from leeway.heads.own_turns import own_turns
from leeway.llm import LLM
from leeway.text.chat_template import ChatTemplate

# a begins a turn, e ends it, letters b to d are words.
ROWS = {
    "a": [0.0, 0.4, 0.3, 0.3, 0.0],
    "b": [0.0, 0.3, 0.3, 0.3, 0.1],
    "c": [0.0, 0.5, 0.2, 0.2, 0.1],
    "d": [0.0, 0.1, 0.5, 0.3, 0.1],
    "e": [1.0, 0.0, 0.0, 0.0, 0.0],
}


def model(template="a{{ messages[0]['content'] }}e{% if add_generation_prompt %}a{% endif %}"):
    table = {(index,): np.array(row) for index, row in enumerate(ROWS.values())}
    engine = make_engine(table)
    chat_template = ChatTemplate(template, engine.parts.tokenizer)
    return LLM.from_engine(
        Engine(replace(engine.parts, chat_template=chat_template), engine.config)
    )


def test_turns_end_where_the_template_ends_them():
    turns = list(own_turns(model(), 60, seed=1))
    assert 5 < len(turns) < 60  # about a third are at least 12 letters long
    assert all(len(turn) >= 12 and set(turn) <= set("bcd") for turn in turns)
    assert len(set(turns)) == len(turns)
    assert sorted(turns) == sorted(own_turns(model(), 60, seed=1))
    assert set(turns).isdisjoint(own_turns(model(), 60, seed=2))


def test_a_turn_without_end_is_left_out():
    endless = model("a{{ messages[0]['content'] }}")  # nothing of the template's ends a turn
    assert list(own_turns(endless, 5)) == []


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        (None, "table has no chat template"),
        ("{{ messages[0]['content'] }}e", "begins with the user's words"),
    ],
    ids=["none", "nothing in front"],
)
def test_a_template_that_leads_nowhere_is_refused(template, reason):
    with pytest.raises(ModelError, match=f"{reason}.*--prompts FILE and --own-turns 0"):
        list(own_turns(model(template), 3))
    assert list(own_turns(model(template), 0)) == []
