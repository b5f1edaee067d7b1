"""Serves a GGUF by llama.cpp's own server, out of the package xllamacpp.

Run by the rival's Python, `python llama_cpp.py '{"model": PATH, "name": NAME, "port": N, "threads":
N, "context": N, "speculation": KIND, "draft_model": PATH or null, "draft_tokens": N or null,
"match_tokens": N or null}'`; KIND is one of `SPECULATION`, null leaves llama.cpp's own. Imports
nothing of this project.
"""

from __future__ import annotations

import importlib
import json
import sys
import threading
from typing import Any

SPECULATION = {
    "none": "NONE",
    "ngram": "NGRAM_SIMPLE",
    "ngram-mod": "NGRAM_MOD",
    "draft": "DRAFT_SIMPLE",
}


def main() -> None:
    """Serve until the process is ended."""
    llama = importlib.import_module("xllamacpp")
    server = llama.Server(parameters(llama, json.loads(sys.argv[1])))
    threading.Event().wait()
    del server


def parameters(llama: Any, asked: dict[str, Any]) -> Any:  # noqa: ANN401 - of the package
    """Return the package's parameters of a server."""
    params = llama.CommonParams()
    params.model.path = asked["model"]
    params.model_alias = {asked["name"]}
    params.hostnames = ["127.0.0.1"]
    params.port = asked["port"]
    params.n_ctx = asked["context"]
    params.n_parallel = 1
    params.n_gpu_layers = 0
    params.cache_prompt = False
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = asked["threads"]
    kind = "COMMON_SPECULATIVE_TYPE_" + SPECULATION[asked["speculation"]]
    params.speculative.types = [getattr(llama.common_speculative_type, kind)]
    draft = params.speculative.draft
    lookup, table = params.speculative.ngram_simple, params.speculative.ngram_mod
    if asked["draft_tokens"] is not None:
        draft.n_max = lookup.size_m = table.n_max = asked["draft_tokens"]
        table.n_min = min(table.n_min, table.n_max)
    if asked["match_tokens"] is not None:
        lookup.size_n = table.n_match = asked["match_tokens"]
    if asked["draft_model"] is not None:
        draft.mparams.path = asked["draft_model"]
        draft.n_gpu_layers = 0
        draft.cpuparams.n_threads = draft.cpuparams_batch.n_threads = asked["threads"]
    return params


if __name__ == "__main__":
    main()
