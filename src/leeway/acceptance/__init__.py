"""Acceptance: which drafted tokens may be kept. Laws, verifiers and their closed forms."""
