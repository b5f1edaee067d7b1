"""CLI: the verbs that a person types, one file a verb; parsing and printing only.

In: words of a command line. Out: results on stdout, logs on stderr, exit code 0 (done), 1 (a
failure at run time) or 2 (a user's mistake). Settings are read by `core.config`; this room knows
their flags only through its table.
"""
