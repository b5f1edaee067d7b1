"""Servers as arms: the body that goes over, and the window that comes of an answer."""

from dataclasses import replace

import pytest
from tests.support.bench_arms import PROMPTS
from tests.support.openai_server import DONE, answer, chunk, event, fake_server, usage
from tests.support.tabular_engine import make_engine

from leeway.backends.tabular import random_table
from leeway.bench.summary import summarise
from leeway.bench.tables import tables
from leeway.bench.url_arm import NOT_TOLD, UrlArm, prompt_text, ready_url_arm, url_window
from leeway.bench.url_spec import UrlSpec
from leeway.bench.workload import Prompt
from leeway.core.errors import ConfigError
from leeway.core.types import SamplingParams

TOKENIZER = make_engine(random_table(5, 1, seed=1)).parts.tokenizer
SAMPLING = SamplingParams(max_tokens=8, temperature=0.5, seed=3)
PROMPT = PROMPTS[0]
ALWAYS = {
    "max_tokens": 8,
    "temperature": 0.5,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "seed": 3,
    "stream": True,
    "stream_options": {"include_usage": True},
}


def arm(url="http://h/v1", conversations=None, **changes):
    return UrlArm(replace(UrlSpec("it", url), **changes), TOKENIZER, conversations or {})


def test_the_body_says_all_that_servers_differ_in():
    assert arm().body(PROMPT, SAMPLING) == ALWAYS | {"prompt": [0, 1, 2]}
    body = arm(model="m", extra={"speculative.law": "typical"}).body(PROMPT, SAMPLING)
    assert body == ALWAYS | {
        "prompt": [0, 1, 2],
        "model": "m",
        "speculative": {"law": "typical"},
    }
    more = replace(SAMPLING, ignore_eos=True, repetition_penalty=1.5, stop=("x",))
    added = {"ignore_eos": True, "repetition_penalty": 1.5, "stop": ["x"]}
    assert arm().body(PROMPT, more) == ALWAYS | {"prompt": [0, 1, 2]} | added


def test_a_prompt_as_text_is_read_back_as_the_same_tokens():
    text = arm(send="text").body(PROMPT, SAMPLING)["prompt"]
    assert isinstance(text, str)
    assert tuple(TOKENIZER.encode(text, add_special=False)) == PROMPT.token_ids
    with pytest.raises(ConfigError, match="has no text that gives exactly its tokens"):
        prompt_text(Prompt("bad", (0, 10**6)), TOKENIZER)


def test_a_conversation_is_sent_whole_or_not_at_all():
    told = {"one": ({"role": "user", "content": "hi"},)}
    body = arm(conversations=told, send="messages").body(PROMPT, SAMPLING)
    assert body == ALWAYS | {"messages": [{"role": "user", "content": "hi"}]}
    with pytest.raises(ConfigError, match="'two' is not a whole conversation"):
        arm(conversations=told, send="messages").body(PROMPTS[1], SAMPLING)


def window_of(*script, status=200, **changes):
    with fake_server(lambda _: (status, script)) as server:
        made = url_window(arm(server.url, **changes), PROMPT, SAMPLING)
    [(path, body)] = server.bodies
    assert path == "/v1/completions" and body["seed"] == 3
    return made


def test_a_window_holds_what_was_seen_and_nothing_else():
    timings = {"draft_n": 6, "draft_n_accepted": 4, "predicted_per_second": 99.5}
    made = window_of(*answer("a", "bc", "d", gap_s=0.01, timings=timings))
    assert (made.void, made.note) == (None, None)
    assert (made.prompt_tokens, made.output_tokens, made.finish_reason) == (3, 3, "length")
    assert made.ttft_s >= 0.01 and made.decode_s >= 0.02 and len(made.steps["gap"]) == 2
    assert list(made.steps) == ["gap"] and made.peak_memory_bytes is None
    assert made.receipt["server"] == {"timings": timings}
    assert (made.receipt["law"], made.receipt["guarantee"]) == (NOT_TOLD, NOT_TOLD)
    [one] = summarise([made], ["it"])
    assert one.rates["draft_acceptance_rate"] == 4 / 6 and one.rates["kept_draft_rate"] is None
    assert one.loss["total_variation_mean"] is None and one.parts == {} and one.depths == []
    assert one.chunk_gap_p50_s == pytest.approx(sum(made.steps["gap"]) / 2)
    assert one.estimates["tokens_per_verify_step"] is None
    speed = one.estimates["decode_tokens_per_s"]
    assert speed.value == pytest.approx(2 / made.decode_s)
    speeds, _, laws, latencies = tables([one])
    assert speeds[1][:2] == ["it", NOT_TOLD] and laws[1][2].startswith("0.667")
    assert latencies[1][0] == "it"


def test_this_projects_own_receipt_is_read():
    engine = make_engine(random_table(5, 1, seed=1), drafter="ngram")
    told = {
        "law": "typical",
        "options": {"delta": 0.2},
        "guarantee": "none",
        "drafter": engine.parts.drafter.name,
        "verify_steps": 2,
        "num_draft_tokens": 3,
        "num_accepted_draft_tokens": 1,
        "positions_decided": 2,
        "deferred": 1,
        "mean_draft_tv": 0.5,
        "loss": {"total_variation_mean": 0.25, "total_variation_max": 0.5},
    }
    made = window_of(*answer("a", "b", metrics={"version": 1, "speculative_decoding": told}))
    assert (made.receipt["law"], made.receipt["guarantee"]) == ("typical", "none")
    [one] = summarise([made], ["it"])
    assert one.rates["draft_acceptance_rate"] == 1 / 3 and one.rates["kept_draft_rate"] == 0.5
    assert one.loss["total_variation_mean"] == 0.25 and one.loss["total_variation_max"] == 0.5
    assert one.estimates["tokens_per_verify_step"].value == 1.0


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ([chunk("a"), chunk("", "stop"), DONE], "gave no usage"),
        ([chunk("a"), chunk("b", "stop"), usage(3, 1), DONE], "counted 1 tokens of an answer that"),
        ([chunk("a", "stop"), usage(3, 9), DONE], "and may have 8"),
        ([chunk("a", "stop"), usage(4, 1), DONE], "read 4 prompt tokens and was sent 3"),
        ([chunk("a"), None], "a request failed: the stream ended"),
    ],
)
def test_a_window_that_does_not_count_says_why_and_is_kept(script, says):
    made = window_of(*script)
    assert says in made.void
    assert len(made.receipt["chunk_s"]) >= 1
    [one] = summarise([made], ["it"])
    assert says in one.void and one.ratios["decode"] is None
    assert tables([one])[0][1][1] == "void"


@pytest.mark.parametrize(
    ("usage_more", "more", "read_anew"),
    [
        ({}, {}, None),
        ({"prompt_tokens_details": {"cached_tokens": 0}}, {}, 3),
        ({"prompt_tokens_details": {"cached_tokens": 2}}, {}, 1),
        ({"prompt_tokens_details": None}, {"timings": {"prompt_n": 3, "cache_n": 0}}, 3),
        ({}, {"timings": {"prompt_n": 1, "cache_n": 2}}, 1),
    ],
    ids=["not-told", "none-kept", "some-kept", "llama.cpp-cold", "llama.cpp-warm"],
)
def test_a_prompt_that_a_server_had_kept_is_void(usage_more, more, read_anew):
    counted = {"prompt_tokens": 3, "completion_tokens": 1} | usage_more
    last = event({"choices": [], "usage": counted} | more)
    made = window_of(chunk("a", "stop"), last, DONE)
    assert made.prefill_tokens == read_anew
    if read_anew in (None, 3):
        assert made.void is None
    else:
        assert "the server read 1 of 3 prompt tokens and had kept the rest" in made.void
        assert "leeway serve --prefix-cache off" in made.void


def test_another_count_of_a_text_is_noted_only():
    made = window_of(*answer("a", prompt_tokens=4), send="text")
    assert (
        made.void is None and made.note == "read 4 prompt tokens where arms of this process read 3"
    )


def test_a_refusal_is_kept_in_the_window_and_ends_a_run_at_its_first_request():
    made = window_of(b'{"error": "busy"}', status=500)
    assert made.void == "a request failed: HTTP 500: busy" and made.finish_reason == "error"
    assert made.receipt["status"] == 500 and made.output_tokens == 0
    with (
        fake_server(lambda _: (422, [b'{"detail": "no ids"}'])) as server,
        pytest.raises(ConfigError, match=r"HTTP 422.*write ,send=text or ,send=messages"),
    ):
        arm(server.url).wake(PROMPT, SAMPLING)


def test_the_model_is_the_servers_only_one():
    spec = UrlSpec("it", "")
    with fake_server(lambda _: (200, []), ["tiny"]) as server:
        assert ready_url_arm(replace(spec, url=server.url), TOKENIZER, {}).spec.model == "tiny"
        with pytest.raises(ConfigError, match="gave no list of models"):
            ready_url_arm(replace(spec, url=server.url + "/x"), TOKENIZER, {})
        named = replace(spec, url=server.url + "/x", model="m")
        assert ready_url_arm(named, TOKENIZER, {}).spec.model == "m"
        gone = replace(spec, url=server.url, model="m")
    with (
        fake_server(lambda _: (200, []), ["a", "b"]) as server,
        pytest.raises(ConfigError, match=r"has 2 models \(a, b\); choose one"),
    ):
        ready_url_arm(replace(spec, url=server.url), TOKENIZER, {})
    with pytest.raises(ConfigError, match="start the server"):
        ready_url_arm(gone, TOKENIZER, {})


ASKED = {"speculative.law": "typical", "speculative.options.delta": 0.2}


@pytest.mark.parametrize(
    ("told", "says"),
    [
        (None, "law typical was asked for, and the server does not tell which one ran"),
        ({"law": "rejection", "options": {}}, "law rejection ran, typical was asked for"),
        (
            {"law": "typical", "options": {"delta": 0.3}},
            "law typical ran with delta=0.3, 0.2 was asked for",
        ),
        ({"law": "greedy_match", "options": {}}, "law greedy_match ran, typical was asked for"),
        ({"law": "typical", "options": {"delta": 0.2, "eps": 1.0}}, None),
    ],
)
def test_another_law_than_asked_for_makes_a_server_void(told, says):
    metrics = {} if told is None else {"metrics": {"speculative_decoding": told}}
    assert window_of(*answer("a", **metrics), extra=ASKED).void == says


def test_greedy_by_design_is_noted_for_a_server_too():
    told = {"law": "greedy_match", "requested_law": "typical", "options": {}}
    script = answer("a", metrics={"speculative_decoding": told})
    with fake_server(lambda _: (200, script)) as server:
        made = url_window(arm(server.url, extra=ASKED), PROMPT, replace(SAMPLING, temperature=0.0))
    assert made.void is None
    assert made.note == "greedy_match judged: at temperature 0 typical does not act"


def test_a_preset_is_not_taken_for_a_law():
    told = {"law": "rejection", "options": {}}
    script = answer("a", metrics={"speculative_decoding": told})
    assert window_of(*script, extra={"speculative.law": "none"}).void is None
