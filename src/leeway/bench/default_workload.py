"""The workload where none is given: a few questions and texts of this project's own."""

from __future__ import annotations

from leeway.bench.workload import Source

_QUESTIONS = {
    "tides": "Why are there two high tides a day and not one? Explain it to a curious child.",
    "bread": "Write a recipe for a plain loaf of bread, with amounts and times.",
    "roman": "Write a Python function that turns a number from 1 to 3999 into a Roman numeral, "
    "with a docstring and a few examples.",
    "train": "A train leaves at 9:40 and goes 84 km at 72 km/h, waits 5 minutes and goes 45 km at "
    "90 km/h. When does it arrive? Show the steps.",
    "letter": "Write a short letter to a library asking whether a lost book can be replaced by "
    "another copy.",
    "sort": "Compare insertion sort and merge sort: how they work, how fast they are, and when to "
    "use which.",
    "copy": "Copy this text word for word and then list its nouns: The harbour keeps a ledger of "
    "every boat that enters, its name, its length, the hour and the height of the tide. Old "
    "entries are in ink, new ones are typed.",
    "json": "Give the days of the week as a JSON list of objects with the keys name, number and "
    "is_weekend.",
}

SOURCES = tuple(
    Source(name, ({"role": "user", "content": text},)) for name, text in _QUESTIONS.items()
)
