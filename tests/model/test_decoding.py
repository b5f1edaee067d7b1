"""The real small model: speculation changes no greedy id, and the text is sensible English."""

import re
from dataclasses import replace

import pytest

from leeway import LLM, Acceptance, SamplingParams
from leeway.core.config import engine_config
from leeway.core.types import Request
from leeway.engine.engine import Engine
from leeway.engine.load import load_engine
from leeway.models.heads import find_head
from leeway.models.open import open_model

pytestmark = [pytest.mark.model, pytest.mark.timeout(900)]

QUESTIONS = (
    "What is the capital of France?",
    "Write a haiku about rain.",
    "Explain photosynthesis to a child.",
    "List five fruits, one on each line.",
    "Write a Python function that adds two numbers.",
    "Repeat the sentence 'The cat sat on the mat.' three times.",
    "What is 12 times 12?",
    "Translate 'good morning' into Spanish.",
    "Give me a recipe for pancakes.",
    "Who wrote Hamlet?",
    "Summarise: The quick brown fox jumps over the lazy dog. The dog sleeps.",
    "Write a short e-mail that declines an invitation.",
    "What are the primary colours?",
    "Describe the taste of honey.",
    "Continue: one two three four one two three four one two",
    "Write a JSON object with a name and an age.",
    "Why is the sky blue?",
    "Name three uses of a paper clip.",
    "Write a dialogue between a teacher and a student.",
    "What should I pack for a week in the mountains?",
)
GREEDY = SamplingParams(temperature=0, max_tokens=48)


def open_llm(model_path, **settings):
    return LLM(str(model_path), kv_memory="1GiB", **settings)


def answer_all(llm, sampling=GREEDY, acceptance=None):
    prompts = [llm.encode_messages([{"role": "user", "content": text}]) for text in QUESTIONS]
    return llm.generate(prompts, sampling, acceptance)


@pytest.fixture(scope="module")
def plain(smollm2_path):
    with open_llm(smollm2_path, drafter="none") as llm:
        return answer_all(llm)


@pytest.fixture(scope="module")
def drafted(smollm2_path):
    """The same file in 4 bits drafts for it in 8: good drafts, and not always right."""
    with open_llm(smollm2_path, draft_model=str(smollm2_path), draft_weights="int4") as llm:
        yield llm


def ids(completions):
    return [completion.token_ids for completion in completions]


def test_t01_greedy_ids_with_ngram_drafts_equal_plain_ids(smollm2_path, plain):
    with open_llm(smollm2_path, drafter="ngram") as llm:
        completions = answer_all(llm)
    assert ids(completions) == ids(plain)
    assert sum(one.receipt.tally.num_accepted_tokens for one in completions) > 50


@pytest.mark.parametrize("num_speculative_tokens", [1, 3])
def test_t01_greedy_ids_with_draft_model_drafts_equal_plain_ids(
    drafted, plain, num_speculative_tokens
):
    requests = [
        llm_request(drafted, index, text, num_speculative_tokens)
        for index, text in enumerate(QUESTIONS)
    ]
    completions = run(drafted.engine, requests)
    assert completions == ids(plain)


def llm_request(llm, index, text, num_speculative_tokens):
    prompt = llm.encode_messages([{"role": "user", "content": text}])
    return Request(f"q{index}", prompt, GREEDY, None, num_speculative_tokens)


def run(engine: Engine, requests):
    for request in requests:
        engine.add(request)
    outputs = {request.request_id: () for request in requests}
    while engine.has_work:
        for delta in engine.step():
            outputs[delta.request_id] += delta.token_ids
    return [outputs[request.request_id] for request in requests]


def test_t17_each_prompt_alone_gives_the_ids_it_gives_in_a_batch(smollm2_path, plain):
    with open_llm(smollm2_path, drafter="ngram") as llm:
        for index in (0, 5, 14):
            alone = llm.chat([{"role": "user", "content": QUESTIONS[index]}], GREEDY)
            assert alone.token_ids == plain[index].token_ids


def test_t03_t17_a_seed_gives_the_same_text_alone_and_in_company(smollm2_path):
    sampling = SamplingParams(temperature=0.8, top_k=40, top_p=0.95, seed=11, max_tokens=32)
    with open_llm(smollm2_path, drafter="ngram") as llm:
        together = answer_all(llm, sampling)
        for index in (1, 8):
            alone = llm.chat([{"role": "user", "content": QUESTIONS[index]}], sampling)
            assert alone.token_ids == together[index].token_ids


def test_the_text_is_sensible_english(plain):
    capital = plain[0].text
    assert "Paris" in capital
    words = re.findall(r"[a-z]+", " ".join(one.text.lower() for one in plain))
    common = {"the", "a", "of", "to", "and", "in", "is", "you", "it", "that", "for", "with"}
    share = sum(word in common for word in words) / len(words)
    assert len(words) > 300 and share > 0.15
    assert all("\ufffd" not in one.text for one in plain)


def test_t19_lossy_laws_accept_more_and_their_receipts_say_at_what_price(drafted):
    sampling = SamplingParams(temperature=1.0, seed=5, max_tokens=40)
    laws = (Acceptance(), Acceptance("tokenv3", {"alpha": 0.9, "off_set": "coin"}))
    exact, lossy = (answer_all(drafted, sampling, law) for law in laws)
    for one in (*exact, *lossy):
        one.receipt.tally.check()
    assert all(one.receipt.tally.loss_tv_max == 0 for one in exact)
    assert rate(lossy) > rate(exact)
    mean_loss = sum(one.receipt.tally.loss_tv_sum for one in lossy) / decided(lossy)
    assert 0.005 < mean_loss < 0.5


def decided(completions):
    return sum(one.receipt.tally.num_decided for one in completions)


def rate(completions):
    return sum(one.receipt.tally.num_accepted_tokens for one in completions) / decided(completions)


def test_the_default_configuration_loads(smollm2_path):
    engine = load_engine(engine_config(model=str(smollm2_path), kv_memory="256MiB"))
    assert engine.law.info.name == "rejection"
    has_head = find_head(open_model(str(smollm2_path))) is not None
    assert engine.parts.drafter.name == ("mtp_ngram" if has_head else "ngram")


def test_t17_t18_lack_of_room_and_shared_beginnings_change_no_token(smollm2_path):
    """Eight blocks of 32 tokens for two answers that come to need five each; then one again."""
    engine = load_engine(
        engine_config(model=str(smollm2_path), kv_memory="6MiB", drafter="ngram", max_num_seqs=2)
    )
    assert engine.parts.backend.capacity_tokens == 8 * 32
    encode = LLM.from_engine(engine).encode_messages
    samplings = (
        SamplingParams(seed=5, max_tokens=110),
        SamplingParams(temperature=0, max_tokens=110),
    )
    prompts = [encode([{"role": "user", "content": text}]) for text in QUESTIONS[1:3]]
    requests = [
        Request(str(index), prompt, replace(sampling, ignore_eos=True))
        for index, (prompt, sampling) in enumerate(zip(prompts, samplings, strict=True))
    ]
    config = replace(engine.config, prefix_cache="off", max_num_seqs=1)
    alone = run(Engine(engine.parts, config), requests)
    again = replace(requests[0], request_id="2", sampling=replace(samplings[0], max_tokens=8))
    assert run(engine, requests) == alone
    assert run(engine, [again]) == [alone[0][:8]]
    totals = engine.totals.values()
    assert sum(tally.num_preemptions for tally in totals) > 0
    assert sum(tally.num_cached_tokens for tally in totals) == 32
    engine.parts.backend.check_integrity()
