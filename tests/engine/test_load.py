"""From a configuration to an engine, with tiny random models on the real backend."""

import json

import pytest
from tests.support.tabular_engine import ask, run_all, token_ids
from tests.support.tiny_models import write_tiny_gguf, write_tiny_hf_folder

from leeway.core.config import engine_config
from leeway.core.errors import ConfigError, RequestError
from leeway.core.types import SamplingParams
from leeway.engine.load import load_engine
from leeway.llm import LLM

GREEDY = {"temperature": 0.0, "max_tokens": 24}


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "target.gguf"
    write_tiny_gguf(path, "llama", seed=1)
    return path


@pytest.fixture(scope="module")
def draft(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "draft"
    write_tiny_hf_folder(path, "qwen3", seed=2)
    return path


def load(model, **settings):
    return load_engine(engine_config(model=str(model), kv_memory="4MiB", **settings))


def greedy_ids(engine):
    return token_ids(run_all(engine, ask((70, 71, 72, 70, 71, 72, 70), **GREEDY))["a"])


@pytest.mark.parametrize("weights", ["int8", "int4", "16bit", "f32"])
@pytest.mark.parametrize("kv_cache", ["16bit", "u8"])
def test_greedy_ids_do_not_depend_on_the_drafter(target, draft, weights, kv_cache):
    settings = {"weights": weights, "kv_cache": kv_cache}
    plain = greedy_ids(load(target, drafter="none", **settings))
    assert len(plain) == 24
    assert greedy_ids(load(target, drafter="ngram", **settings)) == plain
    drafted = load(target, draft_model=str(draft), **settings)
    assert greedy_ids(drafted) == plain


def test_a_model_that_drafts_for_itself_is_always_accepted(target):
    engine = load(target, draft_model=str(target), weights="f32", draft_weights="f32")
    receipt = run_all(engine, ask((70, 71), **GREEDY))["a"][-1].receipt
    assert receipt.tally.num_accepted_tokens == receipt.tally.num_draft_tokens > 15


def test_the_draft_model_has_as_many_slots_as_the_target(target, draft):
    engine = load(target, draft_model=str(draft))
    capacity = engine.parts.backend.capacity_tokens
    prompt = tuple([70, 71] * 20)
    requests = [ask(prompt, name=f"r{index}", **GREEDY) for index in range(12)]
    answers = run_all(engine, *requests)
    assert all(token_ids(deltas) for deltas in answers.values())
    assert capacity > 0 and engine.status()["kv_reserved_tokens"] == 0


def test_another_vocabulary_is_refused(target, tmp_path):
    folder = tmp_path / "other"
    write_tiny_hf_folder(folder, "llama")
    path = folder / "tokenizer.json"
    document = json.loads(path.read_text())
    vocab = document["model"]["vocab"]
    vocab["x"], vocab["y"] = vocab["y"], vocab["x"]
    path.write_text(json.dumps(document))
    with pytest.raises(ConfigError, match="another vocabulary"):
        load(target, draft_model=str(folder))


def test_generate_takes_text_and_token_ids(target):
    with LLM(str(target), kv_memory="4MiB", drafter="none") as llm:
        sampling = SamplingParams(**GREEDY)
        ids = llm.encode("hello")
        both = llm.generate(["hello", ids], sampling)
        assert both[0].token_ids == both[1].token_ids and len(both) == 2
        assert llm.generate("hello", sampling)[0].token_ids == both[0].token_ids
        first = next(iter(llm.stream(ids, sampling)))
        assert first.token_ids == both[0].token_ids[:1]
        assert not llm.engine.has_work


def test_streams_and_batches_of_one_model_do_not_mix(target):
    sampling = [SamplingParams(max_tokens=12, seed=seed) for seed in range(3)]
    with LLM(str(target), kv_memory="4MiB") as llm:
        alone = [llm.generate("hello", one)[0].token_ids for one in sampling]
        ids = llm.encode("hello")
        first, second = llm.stream(ids, sampling[0]), llm.stream(ids, sampling[1])
        received = [[], []]
        received[0] += next(first).token_ids
        received[1] += next(second).token_ids
        assert llm.generate("hello", sampling[2])[0].token_ids == alone[2]
        for deltas, tokens in ((second, received[1]), (first, received[0])):
            for delta in deltas:
                tokens.extend(delta.token_ids)
        assert [tuple(tokens) for tokens in received] == alone[:2]
        assert not llm.engine.has_work


def test_settings_beside_a_whole_configuration_are_refused(target):
    config = engine_config(model=str(target))
    with pytest.raises(ConfigError, match="typical_threshold beside a whole EngineConfig"):
        LLM(config, typical_threshold=0.3)


def test_text_for_messages_is_refused_with_the_right_shape(target):
    with LLM(str(target), kv_memory="4MiB") as llm, pytest.raises(RequestError, match="'role'"):
        llm.chat("hello")


def test_more_cache_than_memory_is_refused(target):
    with pytest.raises(ConfigError, match=r"more than the [0-9]+ bytes of memory that are free"):
        load_engine(engine_config(model=str(target), kv_memory="900TiB"))
