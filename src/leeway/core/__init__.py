"""Core: the values that pass between rooms, the error tree, configuration and coins.

Imports nothing else of ours.
"""
