"""One check for each instruction of IFEval, 25 in all.

In: an answer and the instruction's arguments, as the data file names them. Out: whether the answer
follows it. What counts is what the authors' own checks count, so that figures can be compared.
Source: Zhou et al. 2023, arXiv 2311.07911. Deviates: sentences and capital words are told apart by
rules here (the authors use a trained splitter), languages by another library.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from leeway.quality.suites.language import language_of

Arguments = Mapping[str, Any]
Check = Callable[[str, Arguments], bool]

CONSTRAINED = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
RESPONSE_BREAK = "******"
_PARAGRAPH_BREAK = re.compile(r"\s?\*\*\*\s?")
_WORD = re.compile(r"\w+")
_CAPITAL_TOKEN = re.compile(r"\w+(?:[-.]\w+)*")
_SENTENCE_END = re.compile(r"[.!?]+[\"'”’)\]*_]*(?=\s+[\"'“‘(\[*_]*[A-Z0-9])")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\"'“])(?:mr|mrs|ms|dr|prof|sr|jr|st|vs|etc|e\.g|i\.e|cf|no|fig|inc|ltd|co|[A-Z]"
    r"|(?:[a-z]\.)+[a-z])$",
    re.IGNORECASE,
)
_FIRST_WORD_END = re.compile(r"[.,?!'\"]")


def _compares(count: int, relation: str, wanted: int) -> bool:
    """Return whether a count is as asked: "less than" or "at least"."""
    if relation == "less than":
        return count < wanted
    if relation == "at least":
        return count >= wanted
    raise ValueError(f"unknown relation {relation!r}")


def num_sentences(text: str) -> int:
    """Return how many sentences a text has; line breaks do not end one."""
    text, count, start = text.strip(), 0, 0
    for end in _SENTENCE_END.finditer(text):
        is_point = end.group().startswith(".") and not end.group().startswith("..")
        if is_point and _ABBREVIATION.search(text[start : end.start()]):
            continue
        count, start = count + 1, end.end()
    return count + bool(text[start:].strip())


def _has_keywords(answer: str, given: Arguments) -> bool:
    return all(re.search(word, answer, re.IGNORECASE) for word in given["keywords"])


def _keyword_frequency(answer: str, given: Arguments) -> bool:
    count = len(re.findall(given["keyword"], answer, re.IGNORECASE))
    return _compares(count, given["relation"], given["frequency"])


def _has_no_forbidden_word(answer: str, given: Arguments) -> bool:
    words = given["forbidden_words"]
    return not any(re.search(rf"\b{word}\b", answer, re.IGNORECASE) for word in words)


def _letter_frequency(answer: str, given: Arguments) -> bool:
    count = answer.lower().count(str(given["letter"]).lower())
    return _compares(count, given["let_relation"], given["let_frequency"])


def _is_in_language(answer: str, given: Arguments) -> bool:
    return language_of(answer) in (given["language"], None)


def _sentences(answer: str, given: Arguments) -> bool:
    return _compares(num_sentences(answer), given["relation"], given["num_sentences"])


def _words(answer: str, given: Arguments) -> bool:
    return _compares(len(_WORD.findall(answer)), given["relation"], given["num_words"])


def _paragraphs(answer: str, given: Arguments) -> bool:
    parts = [part.strip() for part in _PARAGRAPH_BREAK.split(answer)]
    return all(parts[1:-1]) and sum(map(bool, parts)) == int(given["num_paragraphs"])


def _nth_paragraph_begins(answer: str, given: Arguments) -> bool:
    parts, nth = answer.split("\n\n"), given["nth_paragraph"]
    if sum(bool(part.strip()) for part in parts) != given["num_paragraphs"]:
        return False
    words = parts[nth - 1].split() if nth <= given["num_paragraphs"] else []
    if not words:
        return False
    first = _FIRST_WORD_END.split(words[0].lstrip("'\""))[0]
    return first.lower() == str(given["first_word"]).lower()


def _placeholders(answer: str, given: Arguments) -> bool:
    return len(re.findall(r"\[.*?\]", answer)) >= int(given["num_placeholders"])


_POSTSCRIPTS = {
    "P.P.S": re.compile(r"p\.\s?p\.\s?s", re.IGNORECASE),
    "P.S.": re.compile(r"p\.\s?s\.", re.IGNORECASE),
}


def _has_postscript(answer: str, given: Arguments) -> bool:
    marker = str(given["postscript_marker"])
    pattern = _POSTSCRIPTS.get(marker) or re.compile(re.escape(marker), re.IGNORECASE)
    return pattern.search(answer) is not None


def _bullets(answer: str, given: Arguments) -> bool:
    stars = re.findall(r"^\s*\*[^*].*$", answer, re.MULTILINE)
    dashes = re.findall(r"^\s*-.*$", answer, re.MULTILINE)
    return len(stars) + len(dashes) == int(given["num_bullets"])


def _is_constrained(answer: str, _: Arguments) -> bool:
    return any(one in answer for one in CONSTRAINED)


def _highlights(answer: str, given: Arguments) -> bool:
    single = re.findall(r"\*([^\n*]*)\*", answer)
    double = re.findall(r"\*\*([^\n*]*)\*\*", answer)
    count = sum(bool(inside.strip()) for inside in [*single, *double])
    return count >= int(given["num_highlights"])


def _sections(answer: str, given: Arguments) -> bool:
    splitter = re.escape(str(given["section_spliter"]).strip())
    count = len(re.split(rf"\s?{splitter}\s?\d+\s?", answer)) - 1
    return count >= int(given["num_sections"])


def _is_json(answer: str, _: Arguments) -> bool:
    text = re.sub(r"^```(?:json)?", "", answer.strip(), flags=re.IGNORECASE)
    try:
        json.loads(text.removesuffix("```").strip())
    except (ValueError, RecursionError):
        return False
    return True


def _has_title(answer: str, _: Arguments) -> bool:
    titles = re.findall(r"<<[^\n]+>>", answer)
    return any(title.strip("<>").strip() for title in titles)


def _two_responses(answer: str, _: Arguments) -> bool:
    parts = [part.strip() for part in answer.split(RESPONSE_BREAK)]
    given = [part for part in parts if part]
    return all(parts[1:-1]) and len(given) == 2 and given[0] != given[1]


def _repeats_prompt(answer: str, given: Arguments) -> bool:
    wanted = str(given["prompt_to_repeat"]).strip().lower()
    return answer.strip().lower().startswith(wanted)


def _ends_with(answer: str, given: Arguments) -> bool:
    ending = answer.strip().strip('"').lower()
    return ending.endswith(str(given["end_phrase"]).strip().lower())


def _capital_words(answer: str, given: Arguments) -> bool:
    count = sum(word.isupper() for word in _CAPITAL_TOKEN.findall(answer))
    return _compares(count, given["capital_relation"], given["capital_frequency"])


def _is_english_capitals(answer: str, _: Arguments) -> bool:
    return answer.isupper() and language_of(answer) == "en"


def _is_english_small(answer: str, _: Arguments) -> bool:
    return answer.islower() and language_of(answer) == "en"


def _has_no_comma(answer: str, _: Arguments) -> bool:
    return "," not in answer


def _is_quoted(answer: str, _: Arguments) -> bool:
    text = answer.strip()
    return len(text) > 1 and text[0] == text[-1] == '"'


CHECKS: Mapping[str, Check] = {
    "change_case:capital_word_frequency": _capital_words,
    "change_case:english_capital": _is_english_capitals,
    "change_case:english_lowercase": _is_english_small,
    "combination:repeat_prompt": _repeats_prompt,
    "combination:two_responses": _two_responses,
    "detectable_content:number_placeholders": _placeholders,
    "detectable_content:postscript": _has_postscript,
    "detectable_format:constrained_response": _is_constrained,
    "detectable_format:json_format": _is_json,
    "detectable_format:multiple_sections": _sections,
    "detectable_format:number_bullet_lists": _bullets,
    "detectable_format:number_highlighted_sections": _highlights,
    "detectable_format:title": _has_title,
    "keywords:existence": _has_keywords,
    "keywords:forbidden_words": _has_no_forbidden_word,
    "keywords:frequency": _keyword_frequency,
    "keywords:letter_frequency": _letter_frequency,
    "language:response_language": _is_in_language,
    "length_constraints:nth_paragraph_first_word": _nth_paragraph_begins,
    "length_constraints:number_paragraphs": _paragraphs,
    "length_constraints:number_sentences": _sentences,
    "length_constraints:number_words": _words,
    "punctuation:no_comma": _has_no_comma,
    "startend:end_checker": _ends_with,
    "startend:quotation": _is_quoted,
}


def follows(instruction: str, answer: str, given: Arguments) -> bool:
    """Return whether an answer follows an instruction as it stands; an empty one follows none."""
    return bool(answer.strip()) and CHECKS[instruction](answer, given)


def follows_loosely(instruction: str, answer: str, given: Arguments) -> bool:
    """Return whether an answer follows once common trimmings are gone.

    Without its first line, its last line, both, and each of these without asterisks.
    """
    lines = answer.split("\n")
    shapes = [answer, *("\n".join(one).strip() for one in (lines[1:], lines[:-1], lines[1:-1]))]
    shapes += [shape.replace("*", "") for shape in shapes]
    return any(follows(instruction, shape, given) for shape in shapes)
