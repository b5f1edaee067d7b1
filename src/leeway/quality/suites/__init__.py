"""Suites: what is asked and how an answer is judged.

In: a data file and one completion. Out: tasks and scores. Knows nothing of engines, arms, or who
wrote the completion.
"""
