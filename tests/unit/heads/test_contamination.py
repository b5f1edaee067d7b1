"""Evaluation prompts are known by fingerprint wherever they stand, and little else is.

`LEEWAY_TEST_DATA` names a folder with the real evaluation sets, as their authors publish them:
gsm8k_test.jsonl, gsm8k_train.jsonl, mbpp.jsonl, HumanEvalPlus-OriginFmt.jsonl.gz,
MbppPlus-OriginFmt.jsonl.gz, ifeval_input_data.jsonl, mt_bench_question.jsonl and
spec_bench_question.jsonl. Without it only the quoted prompts are checked.
"""

import gzip
import json
import os
from pathlib import Path

import pytest
from tests.support.evaluation_quotes import KNOWN

from leeway.heads.contamination import FEWEST, EvaluationPrompts
from leeway.heads.prompts import file_prompts, gather, stdlib_prompts

LONG = (
    "A baker sells forty loaves in the morning and half as many in the afternoon, and on Sundays "
    "he closes the shop at noon. How many loaves does he sell in a week?"
)
SHORT = "Count the vowels of a given sentence."
TINY = "Prove it again."


def disguises(text):
    """Return a text as it may turn up: alone, in other dress, inside other words."""
    return {
        "alone": text,
        "upper case": text.upper(),
        "no punctuation": " ".join("".join(c if c.isalnum() else " " for c in text).split()),
        "over lines": text.replace(" ", "\n    "),
        "inside": f"Please help me with homework, it is due today!\n\n{text}\n\nThank you so much.",
        "in code": f'def solve():\n    """{text}"""\n',
    }


@pytest.mark.parametrize("text", [LONG, SHORT], ids=["long", "short"])
@pytest.mark.parametrize("how", list(disguises("")))
def test_a_planted_prompt_is_known_in_every_dress(text, how):
    evaluation = EvaluationPrompts.of([LONG, SHORT])
    assert evaluation.overlaps(disguises(text)[how])
    assert not evaluation.overlaps(disguises("Bake me a cake as fast as you can.")[how])


def test_a_long_prompt_is_known_by_many_windows_and_a_short_one_by_one():
    assert len(EvaluationPrompts.of([SHORT])) == 1
    assert len(EvaluationPrompts.of([LONG])) > 1
    words = LONG.split()
    evaluation = EvaluationPrompts.of([LONG])
    assert not evaluation.overlaps(" ".join(words[:6]))  # common beginnings are free
    assert not evaluation.overlaps(" ".join(reversed(words)))
    assert len(EvaluationPrompts.of(["", " .,; "])) == 0 and not evaluation.overlaps("")


def test_a_prompt_of_very_few_words_is_known_alone_only():
    evaluation = EvaluationPrompts.of([TINY])
    assert len(TINY.split()) < FEWEST
    assert evaluation.overlaps("prove IT again")
    assert not evaluation.overlaps(disguises(TINY)["inside"])


def test_fingerprints_survive_their_file():
    evaluation = EvaluationPrompts.of([LONG, SHORT, TINY])
    data = evaluation.to_bytes()
    assert len(data) == 8 * len(evaluation)
    packaged = EvaluationPrompts.packaged()
    assert len(packaged) > 20_000
    assert not packaged.overlaps(LONG)


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in KNOWN])
@pytest.mark.parametrize("how", ["alone", "upper case", "inside"])
def test_the_packaged_file_knows_real_evaluation_prompts(text, how):
    packaged = EvaluationPrompts.packaged()
    assert packaged.overlaps(disguises(text)[how])
    changed = " ".join(word for index, word in enumerate(text.split()) if index % 5 != 2)
    assert not packaged.overlaps(changed)


def _lines(path):
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in data.splitlines()]


def _evaluation_sets(folder):
    """Return every prompt that must never be trained on, by set."""
    plus = _lines(folder / "MbppPlus-OriginFmt.jsonl.gz")
    plus_ids = {int(str(one["task_id"]).rpartition("/")[2]) for one in plus}
    mbpp = _lines(folder / "mbpp.jsonl")
    turns = ("mt_bench_question.jsonl", "spec_bench_question.jsonl")
    return plus_ids, {
        "HumanEval": [one["prompt"] for one in _lines(folder / "HumanEvalPlus-OriginFmt.jsonl.gz")],
        "MBPP test": [one["text"] for one in mbpp if 11 <= one["task_id"] <= 510],
        "MBPP+": [one["prompt"] for one in plus],
        "MBPP of MBPP+": [one["text"] for one in mbpp if one["task_id"] in plus_ids],
        "GSM8K test": [one["question"] for one in _lines(folder / "gsm8k_test.jsonl")],
        "IFEval": [one["prompt"] for one in _lines(folder / "ifeval_input_data.jsonl")],
        **{
            name: [turn for one in _lines(folder / name) for turn in one["turns"]] for name in turns
        },
    }


@pytest.fixture(name="data", scope="module")
def _data():
    folder = os.environ.get("LEEWAY_TEST_DATA")
    if not folder:
        pytest.skip("LEEWAY_TEST_DATA names no folder with the real evaluation sets")
    return Path(folder)


def test_every_real_evaluation_prompt_is_dropped(data):
    packaged = EvaluationPrompts.packaged()
    _, sets = _evaluation_sets(data)
    for name, texts in sets.items():
        assert len(texts) > 79
        for text in texts:
            assert packaged.overlaps(text), (name, text)
            if len(text.split()) >= 2 * FEWEST:
                assert packaged.overlaps(disguises(text)["inside"]), (name, text)


def test_what_may_be_trained_on_mostly_survives(data):
    packaged = EvaluationPrompts.packaged()
    plus_ids, _ = _evaluation_sets(data)
    gsm8k = list(file_prompts(data / "gsm8k_train.jsonl"))
    mbpp = [
        one["text"]
        for one in _lines(data / "mbpp.jsonl")
        if one["task_id"] > 510 and one["task_id"] not in plus_ids
    ]
    stdlib = list(stdlib_prompts())
    sources = {"gsm8k": gsm8k, "mbpp": mbpp, "stdlib": stdlib}
    for name, least in (("gsm8k", 0.995), ("mbpp", 0.9), ("stdlib", 0.999)):
        every = set(sources[name])
        kept = gather([(name, sources[name])], packaged)
        assert least * len(every) <= len(kept.texts) <= len(every), name


def test_all_sources_together_hold_no_evaluation_prompt(data):
    """The evaluation prompts themselves, mixed into a training list, all go."""
    packaged = EvaluationPrompts.packaged()
    _, sets = _evaluation_sets(data)
    planted = {text for texts in sets.values() for text in texts}
    gsm8k = list(file_prompts(data / "gsm8k_train.jsonl"))[:500]
    found = gather([("mixed", [*gsm8k, *planted])], packaged)
    assert planted.isdisjoint(found.texts) and found.num_dropped >= len(planted)
    assert len(found.texts) > 490
