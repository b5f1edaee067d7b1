"""The OpenVINO backend: the decoder graph, its weights and precisions, and its paged cache."""

from leeway.backends.openvino.backend import OpenVINOBackend

__all__ = ["OpenVINOBackend"]
