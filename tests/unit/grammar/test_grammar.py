"""Grammars over single characters: what may come next, what is refused, what is kept."""

import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from leeway.core.errors import RequestError
from leeway.core.types import Draft, Grammar, Rows
from leeway.grammar import compiler as room
from leeway.grammar.compiler import GrammarCompiler, Vocabulary

TOKENS = [b"a", b"b", b"ab", b"", b"1", b'"', b"{", b"}", b":", b" "]
ENDS = (3, 10)


def encode(text):
    return [TOKENS.index(one.encode()) for one in re.findall(r'ab|[ab1"{}: ]', text)]


def vocabulary():
    tokens = [*TOKENS, b""]
    return Vocabulary(tokens.__getitem__, encode, len(tokens), ENDS)


def start(kind, text):
    return GrammarCompiler(vocabulary).start(Grammar(kind, text, "field"))


def allowed(state, *draft_ids):
    return np.flatnonzero(state.allowed_after(draft_ids)).tolist()


def test_what_may_come_next_follows_the_text_whatever_its_tokens():
    state = start("regex", "(ab|b)+")
    assert allowed(state) == [0, 1, 2]
    assert allowed(state, 0) == [1]
    assert allowed(state, 0, 1) == allowed(state, 2) == [0, 1, 2, 3, 10]
    assert state.allowed_after((2, 10)) is None
    assert allowed(state) == [0, 1, 2]


def test_text_that_must_come_comes_in_the_tokenizers_own_tokens():
    assert allowed(start("regex", "ab1?")) == [2]


def test_drafts_that_were_rejected_leave_nothing_behind():
    state = start("regex", "(ab|b)1?")
    assert allowed(state, 0, 1, 4) == [3, 10]
    assert allowed(state, 2) == [3, 4, 10]
    state.advance([0])
    assert allowed(state) == [1]
    assert allowed(state, 1, 4) == [3, 10]
    state.advance([1, 4, 3])
    assert allowed(state) == [3, 10]


def test_a_copy_goes_its_own_way():
    state = start("regex", "(a|b)1")
    other = state.copy()
    other.advance([0])
    assert (allowed(state), allowed(other)) == ([0, 1], [4])


def test_rows_are_masked_behind_the_tokens_before_them():
    state = start("regex", "(ab|b)1")
    masked = state.mask(np.zeros((3, 11), np.float32), (0, 1))
    assert [np.flatnonzero(np.isfinite(row)).tolist() for row in masked] == [[0, 1, 2], [1], [4]]
    assert masked.dtype == np.float32


def test_a_drafters_row_is_masked_over_its_own_columns():
    state = start("regex", "(ab|b)1")
    row, ids = np.zeros((1, 3)), np.array([1, 2, 4])
    np.testing.assert_array_equal(state.mask_draft_row(row, (), ids), [[0, 0, -np.inf]])
    assert state.mask_draft_row(row, (0, 1, 4), ids) is None
    assert state.mask_draft_row(np.zeros((1, 11)), (0, 1, 4, 3), None) is None


@pytest.mark.parametrize(
    ("drafted", "kept"),
    [((0, 1, 4), (0, 1, 4)), ((2, 3, 0), (2, 3)), ((0, 0, 1), (0,)), ((4,), ()), ((0, 3), (0,))],
)
def test_point_mass_drafts_are_cut_at_the_first_token_that_may_not_come(drafted, kept):
    assert start("regex", "(ab|b)1?").cut(Draft(drafted)).token_ids == kept


def test_sampled_drafts_come_from_masked_rows_and_are_left_alone():
    draft = Draft((4,), Rows(np.ones((1, 1)), np.array([4])))
    assert start("regex", "ab").cut(draft) is draft


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("json_schema", "{", "the schema is not JSON"),
        ("json_schema", "true", "the schema is a JSON bool, not an object"),
        ("json_schema", '{"enum": []}', "Unsatisfiable schema: anyOf is empty"),
        (
            "json_schema",
            '{"allOf": [{"type": "string"}, {"type": "integer"}]}',
            "Unsatisfiable schema: incompatible types",
        ),
        ("json_schema", '{"type": "integer", "minimum": 5, "maximum": 3}', "minimum .5. is great"),
        ("json_schema", '{"type": "text"}', "Invalid type: text"),
        ("json_schema", '{"not": {}}', "Unimplemented keys"),
        ("json_schema", '{"$ref": "#"}', "no token of this model"),
        ("json_schema", '{"allOf": [' * 300 + "{}" + "]}" * 300, "recursion limit"),
        ("json_schema", "[" * 100_000, "not JSON|recursion"),
        ("regex", "(", "regex"),
        ("regex", "(" * 20_000 + "a" + ")" * 20_000, "regex"),
        ("regex", "q", "no token of this model"),
        ("grammar", "start: other", 'unknown name: "other"'),
        ("grammar", "start: " + "(" * 20_000 + '"a"' + ")" * 20_000, "too deeply nested"),
        ("grammar", "", "."),
        ("choice", "[]", "no choice, or an empty one"),
        ("choice", '["a", ""]', "no choice, or an empty one"),
    ],
)
def test_t12_what_no_answer_can_have_is_refused_by_name(kind, text, message):
    with pytest.raises(RequestError, match=rf"^field cannot be used: .*({message})") as e:
        start(kind, text)
    assert e.value.param == "field"
    assert len(e.value.message) < 400


@pytest.mark.parametrize(
    ("text", "accepted"),
    [('start: "a" | "ab" "1"', [0, 2]), ('root ::= "b" [1]', [1])],
    ids=["lark", "gbnf"],
)
def test_grammars_are_read_in_both_notations(text, accepted):
    assert allowed(start("grammar", text)) == accepted


def test_choices_are_taken_as_they_are():
    state = start("choice", json.dumps(['a"b', "1"]))
    assert allowed(state) == [0, 4]
    state.advance([0])
    assert allowed(state) == [5]


def test_each_grammar_is_compiled_once_and_the_oldest_forgotten(monkeypatch):
    built = []
    monkeypatch.setattr(room, "MAX_KEPT", 2)
    compiler = GrammarCompiler(vocabulary)
    build = compiler._build
    monkeypatch.setattr(compiler, "_build", lambda one: built.append(one.text) or build(one))
    for text in ("a", "b", "a", "ab", "a", "b"):
        compiler.compile(Grammar("regex", text))
        compiler.start(Grammar("regex", text))
    assert built == ["a", "b", "ab", "b"]


def spell(state, text):
    """Take a text token by token; return how much of it may come."""
    for length, token_id in enumerate(encode(text)):
        if not state.allowed_after(())[token_id]:
            return length
        state.advance([token_id])
    return len(encode(text))


CALLS = {"frames": [{"begin": "{1:", "schema": {"const": 1}, "end": "}"}], "between": " "}


@pytest.mark.parametrize(
    ("trigger", "between", "text", "length"),
    [
        (None, None, "{1:1}", 5),
        (None, None, "{1:1} ", 5),
        (None, " ", "{1:1} {1:1}", 11),
        (None, " ", "b", 0),
        ("{", None, "b:}a b", 6),
        ("{", None, "b{1:1}b{1:1}", 12),
        ("{", None, "b{a", 2),
        ("{", None, "b{1:11", 5),
    ],
)
def test_calls_hold_to_their_frames_from_the_trigger_on(trigger, between, text, length):
    calls = {**CALLS, "trigger": trigger, "between": between}
    assert spell(start("calls", json.dumps(calls)), text) == length


def test_a_kept_form_starts_while_another_one_compiles():
    compiler = GrammarCompiler(vocabulary)
    kept, slow = Grammar("regex", "a", "field"), Grammar("regex", "b", "field")
    compiler.compile(kept)
    build, inside, go_on = compiler._build, threading.Event(), threading.Event()

    def stand_still(grammar):
        inside.set()
        assert go_on.wait(30)
        return build(grammar)

    compiler._build = stand_still
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(compiler.compile, slow)
        assert inside.wait(30)
        try:
            assert allowed(pool.submit(compiler.start, kept).result(timeout=30)) == [0]
        finally:
            go_on.set()
        waiting.result(timeout=30)
    assert allowed(compiler.start(slow)) == [1]
