"""Backends: a model that can be run forward; one protocol, several machines."""
