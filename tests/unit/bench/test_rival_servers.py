"""Scripts that rivals' own interpreters run, over stand-ins of their packages."""

import importlib.util
import json
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

from leeway.bench import rivals
from leeway.bench.http_stream import ask, get_json


def script(name):
    path = Path(rivals.__file__).parent / "rival_servers" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tree(**values):
    return SimpleNamespace(**values)


def fake_llama():
    cpu = {"cpuparams": tree(), "cpuparams_batch": tree()}
    draft = tree(mparams=tree(path=""), **{name: tree() for name in cpu})
    lookup, table = tree(size_n=12, size_m=48), tree(n_match=24, n_min=48, n_max=64)
    kinds = {"ngram_simple": lookup, "ngram_mod": table}
    params = tree(model=tree(), speculative=tree(draft=draft, **kinds), **cpu)
    names = ("NONE", "NGRAM_SIMPLE", "NGRAM_MOD", "DRAFT_SIMPLE")
    kinds = tree(**{f"COMMON_SPECULATIVE_TYPE_{name}": name for name in names})
    return tree(CommonParams=lambda: params, common_speculative_type=kinds)


@pytest.mark.parametrize(
    ("kind", "types"),
    [
        ("none", ["NONE"]),
        ("ngram", ["NGRAM_SIMPLE"]),
        ("ngram-mod", ["NGRAM_MOD"]),
        ("draft", ["DRAFT_SIMPLE"]),
    ],
)
def test_llama_cpp_gets_threads_context_and_kind(kind, types):
    asked = {"model": "/m/tiny.gguf", "name": "tiny", "port": 81, "threads": 3, "context": 512}
    more = {"speculation": kind, "draft_tokens": 5, "match_tokens": None}
    drafter = "/m/small.gguf" if kind == "draft" else None
    module = script("llama_cpp")
    made = module.parameters(fake_llama(), asked | more | {"draft_model": drafter})
    assert (made.model.path, made.model_alias, made.port) == ("/m/tiny.gguf", {"tiny"}, 81)
    assert (made.n_ctx, made.n_parallel, made.n_gpu_layers, made.cache_prompt) == (512, 1, 0, False)
    assert made.cpuparams.n_threads == made.cpuparams_batch.n_threads == 3
    assert made.speculative.types == types and made.hostnames == ["127.0.0.1"]
    draft = made.speculative.draft
    assert draft.n_max == 5 and draft.mparams.path == (drafter or "")
    assert drafter is None or draft.cpuparams.n_threads == 3
    lookup, table = made.speculative.ngram_simple, made.speculative.ngram_mod
    assert (lookup.size_m, table.n_max, table.n_min) == (5, 5, 5)
    assert (lookup.size_n, table.n_match) == (12, 24)  # its own
    more |= {"draft_tokens": None, "match_tokens": 2, "draft_model": drafter}
    own = module.parameters(fake_llama(), asked | more).speculative
    assert (own.ngram_simple.size_n, own.ngram_simple.size_m, own.ngram_mod.n_min) == (2, 48, 48)
    assert not hasattr(own.draft, "n_max")
    assert set(module.SPECULATION) == set(rivals.RECIPES["llama.cpp"].speculation)


class FakePipeline:
    """Says three pieces, or fails."""

    def __init__(self, module, *, is_looking_up=False):
        self.is_looking_up = is_looking_up
        self.refusal = lambda body: module.Pipeline.refusal(self, body)
        self.lock = threading.Lock()
        self.asked = []

    def generate(self, body, on_text):
        self.asked.append(body)
        if body["prompt"] == "fail":
            raise RuntimeError("out of memory")
        for text in ("a", "b", "c"):
            on_text(text)
        counts = {"get_num_input_tokens": lambda: 2, "get_num_generated_tokens": lambda: 3}
        return tree(perf_metrics=tree(**counts))


@pytest.fixture
def genai():
    module = script("openvino_genai_server")
    module.Handler.pipeline, module.Handler.name = FakePipeline(module), "tiny"
    server = ThreadingHTTPServer(("127.0.0.1", 0), module.Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield module, f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


def post(url, path="/completions", **body):
    return ask(url + path, json.dumps({"prompt": [1, 2]} | body).encode(), timeout_s=30)


@pytest.mark.parametrize(("max_tokens", "reason"), [(3, "length"), (4, "stop")])
def test_openvino_genai_streams_each_token_and_its_counts(genai, max_tokens, reason):
    module, url = genai
    got = post(url, max_tokens=max_tokens, stream=True, top_k=0, min_p=0.0, seed=1)
    assert (got.error, got.text, len(got.chunk_s)) == (None, "abc", 3)
    assert got.finish_reason == reason
    assert (got.count("prompt_tokens"), got.count("completion_tokens")) == (2, 3)
    assert module.Handler.pipeline.asked[0]["prompt"] == [1, 2]
    assert get_json(url + "/models", 5)["data"][0]["id"] == "tiny"


def test_openvino_genai_refuses_what_it_would_leave_out(genai):
    module, url = genai
    assert post(url, stop=["x"]).error == "HTTP 400: fields not supported: stop"
    assert post(url, min_p=0.1).error == "HTTP 400: min_p is not supported by the library"
    assert "only /v1/completions" in post(url, "/chat/completions").error
    assert "mid-stream: out of memory" in post(url, prompt="fail").error
    module.Handler.pipeline = FakePipeline(module, is_looking_up=True)
    assert "prompt lookup is greedy here" in post(url, temperature=0.5).error
    assert post(url, temperature=0.0).error is None
