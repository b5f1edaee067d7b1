"""Scripts that rivals' own interpreters run, over stand-ins of their packages."""

import importlib.util
import json
import sys
import threading
from contextlib import nullcontext
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


class FakeEngine:
    """Says three pieces, or fails; refuses what the given module's engine refuses."""

    def __init__(self, module, **state):
        self.refusal = lambda body: module.Engine.refusal(tree(**state), body)
        self.asked = []

    def generate(self, body, on_text):
        self.asked.append(body)
        if body["prompt"] == "fail":
            raise RuntimeError("out of memory")
        if body["prompt"] == "odd":
            raise KeyError("past_key_values")
        for text in ("a", "b", "c"):
            on_text(text)
        return 2, 3


@pytest.fixture
def served():
    module = script("token_server")
    module.Handler.engine, module.Handler.name = None, "tiny"
    server = ThreadingHTTPServer(("127.0.0.1", 0), module.Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield module.Handler, f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


def post(url, path="/completions", **body):
    return ask(url + path, json.dumps({"prompt": [1, 2]} | body).encode(), timeout_s=30)


@pytest.mark.parametrize(("max_tokens", "reason"), [(3, "length"), (4, "stop")])
def test_an_engine_is_streamed_token_by_token_with_its_counts(served, max_tokens, reason):
    handler, url = served
    handler.engine = FakeEngine(script("genai_engine"), is_looking_up=False)
    got = post(url, max_tokens=max_tokens, stream=True, top_k=0, min_p=0.0, seed=1)
    assert (got.error, got.text, len(got.chunk_s)) == (None, "abc", 3)
    assert got.finish_reason == reason
    assert (got.count("prompt_tokens"), got.count("completion_tokens")) == (2, 3)
    assert handler.engine.asked[0]["prompt"] == [1, 2]
    assert get_json(url + "/models", 5)["data"][0]["id"] == "tiny"


def test_openvino_genai_refuses_what_it_would_leave_out(served):
    handler, url = served
    handler.engine = FakeEngine(script("genai_engine"), is_looking_up=False)
    assert post(url, stop=["x"]).error == "HTTP 400: fields not supported: stop"
    assert post(url, min_p=0.1).error == "HTTP 400: min_p is not supported by the library"
    assert "only /v1/completions" in post(url, "/chat/completions").error
    assert "mid-stream: RuntimeError: out of memory" in post(url, prompt="fail").error
    assert "mid-stream: KeyError: 'past_key_values'" in post(url, prompt="odd").error
    handler.engine = FakeEngine(script("genai_engine"), is_looking_up=True)
    assert "prompt lookup is greedy here" in post(url, temperature=0.5).error
    assert post(url, temperature=0.0).error is None


class Ids(list):
    """As much of a tensor as the engine of transformers touches."""

    @property
    def shape(self):
        return (1, len(self[0]))

    def reshape(self, _):
        return self

    def tolist(self):
        return list(self)


class FakeModel:
    def __init__(self, path):
        self.path, self.generation_config, self.asked = path, tree(), []

    def eval(self):
        return self

    def generate(self, ids, **asked):
        self.asked.append(asked)
        streamer = asked["streamer"]
        streamer.put(ids[0])
        for piece in ([7], [8, 9]):
            streamer.put(Ids(piece))
        streamer.end()
        return Ids([[*ids[0], 7, 8, 9]])


def fake_transformers(monkeypatch):
    def decode(ids, skip_special_tokens):
        return "\ufffd" if ids == [7] else "".join(map(str, ids))

    seeds = []
    torch = tree(
        set_num_threads=lambda _: None,
        bfloat16="bf16",
        tensor=Ids,
        ones_like=lambda ids: ids,
        inference_mode=nullcontext,
        manual_seed=seeds.append,
        seeds=seeds,
    )
    tokenizer = tree(decode=decode, encode=lambda text: [len(text)])
    library = tree(
        AutoModelForCausalLM=tree(
            from_pretrained=lambda folder, gguf_file, dtype: FakeModel((folder, gguf_file, dtype))
        ),
        AutoTokenizer=tree(from_pretrained=lambda folder, gguf_file: tokenizer),
        generation=tree(streamers=tree(BaseStreamer=object)),
    )
    for name, module in (("torch", torch), ("transformers", library)):
        monkeypatch.setitem(sys.modules, name, module)
    return torch


def transformers_engine(**more):
    asked = {"model": "/m/tiny.gguf", "threads": 2, "speculation": "none", "draft_model": None}
    counts = {"draft_tokens": None, "match_tokens": None}
    return script("transformers_engine").Engine(asked | counts | more)


def test_transformers_gets_the_sampling_and_hands_text_on_in_whole_characters(monkeypatch):
    torch = fake_transformers(monkeypatch)
    engine = transformers_engine()
    assert engine.model.path == ("/m", "tiny.gguf", "bf16")
    texts = []
    body = {"prompt": [4, 5], "max_tokens": 3, "temperature": 0.5, "top_p": 0.9, "top_k": 20}
    assert engine.generate(body | {"seed": 6, "ignore_eos": True}, texts.append) == (2, 3)
    assert texts == ["789"]  # 7 alone is no whole character
    [asked] = engine.model.asked
    sampling = {"do_sample": True, "temperature": 0.5, "top_p": 0.9, "top_k": 20, "min_p": None}
    lengths = {"max_new_tokens": 3, "min_new_tokens": 3}
    assert asked.items() >= (sampling | lengths).items() and torch.seeds == [6]
    assert not {"assistant_model", "prompt_lookup_num_tokens"} & asked.keys()
    engine.generate({"prompt": "abc", "temperature": 0}, texts.append)
    assert engine.model.asked[1]["do_sample"] is False and "top_p" not in engine.model.asked[1]
    assert [one["repetition_penalty"] for one in engine.model.asked] == [1.0, 1.0]
    assert engine.refusal({"prompt": "a", "stop": ["x"]}) == "fields not supported: stop"
    assert engine.refusal(body) is None


def test_transformers_is_assisted_by_lookup_or_by_a_draft_model(monkeypatch):
    fake_transformers(monkeypatch)
    lookup = transformers_engine(speculation="ngram").assistance
    assert lookup == {"prompt_lookup_num_tokens": 10, "max_matching_ngram_size": 2}
    set_ones = transformers_engine(speculation="ngram", draft_tokens=3, match_tokens=4).assistance
    assert set_ones == {"prompt_lookup_num_tokens": 3, "max_matching_ngram_size": 4}
    more = {"speculation": "draft", "draft_model": "/m/small.gguf", "draft_tokens": 5}
    draft = transformers_engine(**more).assistance["assistant_model"]
    assert draft.path[1] == "small.gguf"
    assert draft.generation_config.num_assistant_tokens == 5
    assert draft.generation_config.num_assistant_tokens_schedule == "constant"
