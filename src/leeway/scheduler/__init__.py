"""Scheduler: who runs in the next step, and how many draft tokens they get."""
