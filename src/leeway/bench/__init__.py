"""Bench: what decoding costs on this machine.

In: a ready engine. Out: measured values with their definitions, n, spread and the machine's load.
Deliberately prints nothing; knows no command line.
"""
