"""Sampling: from logits to the probability row that the user asked for."""
