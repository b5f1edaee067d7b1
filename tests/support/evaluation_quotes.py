"""A sentence or two of real evaluation prompts, which must never be trained on."""

KNOWN = [
    (
        "GSM8K test",
        "Janet\u2019s ducks lay 16 eggs per day. She eats three for breakfast every morning and "
        "bakes muffins for her friends every day with four. She sells the remainder at the "
        "farmers' market daily for $2 per fresh duck egg.",
    ),
    (
        "HumanEval/0",
        "Check if in given list of numbers, are any two numbers closer to each other than\n"
        "    given threshold.\n    >>> has_close_elements([1.0, 2.0, 3.0], 0.5)\n    False\n"
        "    >>> has_close_elements([1.0, 2.8, 3.0, 4.0, 5.0, 2.0], 0.3)\n    True\n",
    ),
    (
        "MBPP 11",
        "Write a python function to remove first and last occurrence of a given character from "
        "the string.",
    ),
    ("MBPP 17", "Write a function to find the perimeter of a square."),
    ("MBPP+ 2", "Write a function to find the shared elements from the given two lists."),
    (
        "IFEval",
        "Write a dialogue between two people, one is dressed up in a ball gown and the other is "
        "dressed down in sweats. The two are going to a nightly event.",
    ),
    (
        "MT-bench 81",
        "Compose an engaging travel blog post about a recent trip to Hawaii, highlighting "
        "cultural experiences and must-see attractions.",
    ),
    ("Spec-Bench", "Where is the snooker world open currently held?"),
]
