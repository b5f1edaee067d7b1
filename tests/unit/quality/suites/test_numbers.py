"""Final numbers out of answers to word problems."""

from __future__ import annotations

from fractions import Fraction

import pytest

from leeway.quality.suites.numbers import final_number

ANSWERS = {
    "Steps: 2 + 3 = 5.\n#### 5": 5,
    "#### 1,234": 1234,
    "#### 1,234,567 apples": 1234567,
    "#### $18": 18,
    "#### $18.00": 18,
    "#### 18 dollars": 18,
    "#### 18.": 18,
    "#### **18**": 18,
    "####18": 18,
    "#### -7": -7,
    "#### −7": -7,
    "#### -$7": -7,
    "#### $-7": -7,
    "#### 0.5": Fraction(1, 2),
    "#### .5": Fraction(1, 2),
    "#### 1/2": Fraction(1, 2),
    "#### 20%": 20,
    "#### 5:30": 5,
    "#### 3 * 4 = 12": 12,
    "#### Answer: 12": 12,
    "Step\n#### 3\nagain\n#### 4": 4,
    "#### \n\nThe answer is 9": 9,
    "#### Final answer\n42": 42,
    "So \\boxed{42}.": 42,
    "So $\\boxed{\\$1{,}000}$ of 2000": 1000,
    "So \\boxed{42 \\text{ apples (of 50)}} are left of 50": 42,
    "First \\boxed{1}, then \\boxed{x = 2}": 2,
    "\\boxed{12": 12,
    "#### 7\nthat is \\boxed{8}": 7,
    "The answer is 12. It took 3 steps.": 12,
    "The answer is: **$12**, not 13": 12,
    "Answer: 2 + 2 = 4": 4,
    "She has 3 + 4 = 7 apples left.": 7,
    "She sells 10-3 apples": 3,
    "It costs $3.50.": Fraction(7, 2),
    "From 5-7": 7,
    "the sum (a) -4": -4,
    "Total: 12,5": 5,
    "It grew by 1.5 to 100.": 100,
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_the_number_that_the_answer_ends_in(answer):
    assert final_number(answer) == ANSWERS[answer]


@pytest.mark.parametrize("answer", ["", "none", "####", "\\boxed{x}", "#### ."])
def test_no_number(answer):
    assert final_number(answer) is None
