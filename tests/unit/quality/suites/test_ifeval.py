"""Each instruction of IFEval against right and wrong answers."""

from __future__ import annotations

import pytest

from leeway.quality.suites.base import Task
from leeway.quality.suites.ifeval import IFEVAL
from leeway.quality.suites.ifeval_checks import CHECKS, follows, follows_loosely, num_sentences

ENGLISH = "the dog runs through the garden and plays with the children all day"
GERMAN = "Der Hund läuft durch den Garten und spielt den ganzen Tag mit den Kindern"
HINDI = "कुत्ता बगीचे में दौड़ता है और बच्चों के साथ खेलता है"

CASES = {
    "change_case:capital_word_frequency": [
        ({"capital_relation": "at least", "capital_frequency": 2}, "WOW that is SO nice", "WOW ok"),
        ({"capital_relation": "less than", "capital_frequency": 2}, "I'm here. Wow", "A B c"),
    ],
    "change_case:english_capital": [
        ({}, ENGLISH.upper() + " 7!", ENGLISH),
        ({}, ENGLISH.upper(), GERMAN.upper()),
    ],
    "change_case:english_lowercase": [
        ({}, ENGLISH, ENGLISH.capitalize()),
        ({}, ENGLISH, GERMAN.lower()),
    ],
    "combination:repeat_prompt": [
        ({"prompt_to_repeat": "Write a poem. "}, "\nwrite a POEM. Roses", "Sure! Write a poem. R"),
    ],
    "combination:two_responses": [
        ({}, "one\n******\ntwo", "one\n******\none"),
        ({}, "******one******two******", "one"),
        ({}, "one******two", "one******two******three"),
        ({}, "one******two", "one************two"),
    ],
    "detectable_content:number_placeholders": [
        ({"num_placeholders": 2}, "[name] lives in [town]", "[name\n] lives in [town]"),
    ],
    "detectable_content:postscript": [
        ({"postscript_marker": "P.S."}, "Bye\n\np. s. more", "Bye\nPS more"),
        ({"postscript_marker": "P.P.S"}, "Bye\nP.P.S more", "Bye\nP.S. more"),
    ],
    "detectable_format:constrained_response": [
        ({}, "Well. My answer is maybe. So.", "My answer is perhaps."),
    ],
    "detectable_format:json_format": [
        ({}, '```json\n{"a": [1]}\n```', "{'a': 1}"),
        ({}, '```JSON {"a": 1}```', '{"a": 1} is it'),
        ({}, " [1, 2]\n", "[1, 2"),
    ],
    "detectable_format:multiple_sections": [
        (
            {"section_spliter": "SECTION", "num_sections": 2},
            "SECTION 1\na\nSECTION 2\nb",
            "SECTION one\na\nSECTION 2\nb",
        ),
    ],
    "detectable_format:number_bullet_lists": [
        ({"num_bullets": 2}, "* a\n  - b\nc", "* a\n* b\n- c"),
        ({"num_bullets": 1}, "**bold**\n* a", "**bold** a"),
    ],
    "detectable_format:number_highlighted_sections": [
        ({"num_highlights": 2}, "*a b* and **c**", "*a b* and ** **"),
        ({"num_highlights": 1}, "x *y* z", "x * y\n* z"),
    ],
    "detectable_format:title": [
        ({}, "<<My day>>\nIt was", "<My day>\nIt was"),
        ({}, "so <<a>> b", "<<\n>>"),
        ({}, "<<a>>", "<< >>"),
    ],
    "keywords:existence": [
        ({"keywords": ["dog", "run"]}, "Dogs are running", "Dogs walk"),
    ],
    "keywords:forbidden_words": [
        ({"forbidden_words": ["rock", "stone"]}, "rocks and stony", "a Rock!"),
    ],
    "keywords:frequency": [
        ({"keyword": "dog", "relation": "at least", "frequency": 2}, "Dog, dogs", "a dog"),
        ({"keyword": "dog", "relation": "less than", "frequency": 2}, "a dog", "Dog, dogs"),
    ],
    "keywords:letter_frequency": [
        ({"letter": "T", "let_relation": "at least", "let_frequency": 3}, "Tt t", "T t"),
        ({"letter": "!", "let_relation": "less than", "let_frequency": 1}, "calm", "calm!"),
    ],
    "language:response_language": [
        ({"language": "de"}, GERMAN, ENGLISH),
        ({"language": "hi"}, HINDI, GERMAN),
        ({"language": "hi"}, "42!", ENGLISH),
    ],
    "length_constraints:nth_paragraph_first_word": [
        (
            {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "elm"},
            "Oak is\n\n'Elm, too",
            "Elm is\n\nOak too",
        ),
        (
            {"num_paragraphs": 2, "nth_paragraph": 1, "first_word": "elm"},
            "Elm's\n\nOak",
            "Elm\n\nOak\n\nAsh",
        ),
    ],
    "length_constraints:number_paragraphs": [
        ({"num_paragraphs": 2}, "one\n***\ntwo\n\nstill two", "one\n\ntwo"),
        ({"num_paragraphs": 2}, "one***two***", "one\n***\n\n***\ntwo"),
    ],
    "length_constraints:number_sentences": [
        ({"relation": "at least", "num_sentences": 3}, "One. Two! Three?", "One. Two!"),
        ({"relation": "less than", "num_sentences": 3}, "Mr. Fox has 3.5 m. Is it?", "A? B! C."),
    ],
    "length_constraints:number_words": [
        ({"relation": "at least", "num_words": 3}, "one two, three", "one two ..."),
        ({"relation": "less than", "num_words": 3}, "one two ...", "one two three"),
    ],
    "punctuation:no_comma": [({}, "no such thing", "well, no")],
    "startend:end_checker": [
        ({"end_phrase": "Peace!"}, '"All is well. peace!"\n', "Peace! All is well."),
    ],
    "startend:quotation": [({}, ' "quoted"\n', '"open'), ({}, '""', '"')],
}
FLAT = [
    pytest.param(name, *case, id=f"{name}-{number}")
    for name, cases in CASES.items()
    for number, case in enumerate(cases)
]


def test_every_instruction_has_a_case():
    assert CASES.keys() == CHECKS.keys() and len(CHECKS) == 25


@pytest.mark.parametrize(("name", "given", "right", "wrong"), FLAT)
def test_right_and_wrong_answers_are_told_apart(name, given, right, wrong):
    assert follows(name, right, given)
    assert follows_loosely(name, right, given)
    assert not follows(name, wrong, given)


@pytest.mark.parametrize(("name", "given", "right", "wrong"), FLAT)
def test_an_empty_answer_follows_nothing(name, given, right, wrong):
    assert not follows(name, " \n", given)
    assert not follows_loosely(name, "\n\n", given)


LOOSE = {
    "first line gone": ("startend:quotation", {}, 'Sure:\n"quoted"'),
    "last line gone": ("punctuation:no_comma", {}, "good\nHere, have it"),
    "both gone": ("detectable_format:json_format", {}, 'Here:\n{"a": 1}\nDone.'),
    "asterisks gone": ("startend:end_checker", {"end_phrase": "Peace!"}, "All well. **Peace!**"),
    "last line and asterisks": ("startend:quotation", {}, '*"quoted"*\nThere.'),
}


@pytest.mark.parametrize("name", LOOSE)
def test_trimmings_are_forgiven_only_loosely(name):
    instruction, given, answer = LOOSE[name]
    assert not follows(instruction, answer, given)
    assert follows_loosely(instruction, answer, given)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("No end", 1),
        ("One. Two.", 2),
        ("One.\nTwo?! Three...", 3),
        ("Dr. A. Smith met Mrs. Jones. They left.", 2),
        ("Use e.g. Python 3.11. It works.", 2),
        ('He said "Stop!" Then "Go."', 2),
        ("It costs 3.50 at example.com today", 1),
        ("A list\nof lines\nwithout ends", 1),
    ],
)
def test_sentences_are_counted(text, count):
    assert num_sentences(text) == count


def test_a_score_counts_instructions():
    reference = {
        "instructions": (
            ("punctuation:no_comma", {}),
            ("startend:quotation", {}),
            ("length_constraints:number_words", {"relation": "at least", "num_words": 2}),
        )
    }
    task = Task("ifeval/1", "?", reference, 10)
    score = IFEVAL.score(task, 'Sure,\n"two words"', None)
    assert not score.is_correct
    assert score.detail == "not followed: punctuation:no_comma, startend:quotation"
    assert score.parts == {
        "prompt_strict": 0.0,
        "prompt_loose": 1.0,
        "num_instructions": 3.0,
        "num_strict": 1.0,
        "num_loose": 3.0,
    }
    assert IFEVAL.parts.keys() == score.parts.keys()
    assert IFEVAL.score(task, '"two words"', None).is_correct
