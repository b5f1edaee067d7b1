"""Quality: whether what was decoded is what the target would have said.

In: a ready engine, or answers as token ids. Out: measured values with their definitions, n and
intervals. Deliberately prints nothing; knows no command line.
"""
