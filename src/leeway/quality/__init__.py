"""Quality: what a law costs, on tasks and against the target's own rows.

In: arms that answer, suites that score, or answers as token ids. Out: measured values with their
definitions, n, intervals and what they could have seen. Deliberately prints nothing; knows no
command line.
"""
