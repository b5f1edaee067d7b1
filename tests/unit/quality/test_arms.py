"""Arms that answer many asks: every ask comes back once, with what a lone request would say."""

import pytest
from tests.support.bench_arms import make_arms
from tests.support.openai_server import answer, chat_chunk, fake_server, usage
from tests.support.quality_runs import TASKS, letter_plan

from leeway.bench.url_arm import ready_url_arm
from leeway.bench.url_spec import parse_url
from leeway.core.errors import BackendError, ConfigError
from leeway.core.types import SamplingParams
from leeway.quality.arms import EngineArm, ServerArm, wake
from leeway.quality.asks import asks_of, conversations_of


def asks_over(arm, **sampling):
    return letter_plan([arm], **sampling).asks(1)


def test_hard_support_holds_in_a_batch():
    tallies = []
    for hard in ("false", "true"):
        [arm] = make_arms([f"opt:alpha=0.9,hard_support={hard}@draft_model:3"])
        answered = list(EngineArm(arm).answers(asks_over(arm, top_k=2, max_tokens=20)))
        tallies.append(sum(one.tally.num_outside_support for one in answered))
    assert tallies[0] > 0 and tallies[1] == 0


@pytest.mark.parametrize("law", ["rejection", "typical:delta=0.3", "plain"])
def test_a_batch_says_what_single_requests_say(law):
    [arm] = make_arms([law])
    asks = asks_over(arm)
    found = {one.ask.task.task_id: one for one in EngineArm(arm).answers(asks)}
    assert sorted(found) == [task.task_id for task in TASKS]
    for ask in asks:
        alone = arm.run(ask.prompt.token_ids, ask.sampling)
        got = found[ask.task.task_id]
        assert (got.error, got.text, got.finish_reason) == (None, alone.text, alone.finish_reason)
        assert got.output_tokens == len(alone.token_ids)
        assert got.prompt_tokens == len(ask.prompt.token_ids)
        assert got.losses.num_positions == got.tally.num_decided
        assert got.receipt["law"] == law.partition(":")[0].replace("plain", "rejection")
        assert got.decode_s == got.tally.decode_s >= 0 and got.void is None


def test_no_more_are_open_than_the_engine_runs(monkeypatch):
    [arm] = make_arms(["rejection"])
    most = []
    own = EngineArm(arm)
    step = own._engine.step

    def counting():
        most.append(len(own._engine.request_ids()))
        return step()

    object.__setattr__(own._engine.config, "max_num_seqs", 3)
    monkeypatch.setattr(own._engine, "step", counting)
    assert len(list(own.answers(asks_over(arm)))) == 4
    assert max(most) == 3


def test_a_refused_ask_is_an_error_and_the_others_are_answered():
    [arm] = make_arms(["rejection"])
    asks = asks_over(arm)
    long = asks_of(TASKS[:1], {}, asks[0].sampling, sample=1, max_tokens=5)  # an empty prompt
    found = list(EngineArm(arm).answers([*long, *asks]))
    assert found[0].error == "the prompt is empty; give at least one token"
    assert found[0].receipt == {} and found[0].tally is None
    assert [one.error for one in found[1:]] == [None] * 4


def test_a_request_that_fails_midway_is_an_error(monkeypatch):
    [arm] = make_arms(["plain"])
    own = EngineArm(arm)

    def broken(inputs):
        raise BackendError("the forward failed")

    monkeypatch.setattr(own._engine.parts.backend, "forward", broken)
    found = list(own.answers(asks_over(arm)))
    assert {one.error for one in found} == {"the forward failed"} and len(found) == 4
    assert not own._engine.has_work


def test_what_is_left_open_is_cancelled():
    [arm] = make_arms(["plain"])
    own = EngineArm(arm)
    answers = own.answers(asks_over(arm))
    next(answers)
    answers.close()
    assert not own._engine.has_work


def test_an_arm_that_ran_something_else_is_void(monkeypatch):
    [arm] = make_arms(["typical:delta=0.3"])
    monkeypatch.setattr(type(arm), "fault", lambda self, receipt: f"{receipt.law} ran")
    assert {one.void for one in EngineArm(arm).answers(asks_over(arm))} == {"typical ran"}


def test_a_greedy_arm_says_which_law_judged():
    [arm] = make_arms(["typical:delta=0.3"])
    found = list(EngineArm(arm).answers(asks_over(arm, temperature=0.0)))
    assert {one.note for one in found} == {
        "greedy_match judged: at temperature 0 typical does not act"
    }


DONE = b"data: [DONE]\n\n"


def server_arm(server, num_at_once=2, **options):
    text = f"it=url:{server.url},send=messages" + "".join(f",{k}={v}" for k, v in options.items())
    return ServerArm(ready_url_arm(parse_url(text), None, conversations_of(TASKS)), num_at_once)


def bare_asks(**sampling):
    return asks_of(TASKS, {}, SamplingParams(seed=3, **sampling), sample=1, max_tokens=None)


def told(text):
    return [chat_chunk(text), chat_chunk("", "length"), usage(7, 5), DONE]


def test_servers_are_asked_by_messages_with_the_shared_seeds():
    with fake_server(lambda body: (200, told("ab"))) as server:
        arm = server_arm(server)
        found = list(arm.answers(bare_asks()))
    assert len(found) == 4 and server.most_at_once <= 2
    by_seed = {body["seed"]: body["messages"] for _, body in server.bodies}
    for ask in bare_asks():
        assert by_seed[ask.sampling.seed] == [{"role": "user", "content": ask.task.prompt}]
    one = found[0]
    assert (one.text, one.finish_reason, one.prompt_tokens, one.output_tokens) == (
        "ab", "length", 7, 5,
    )  # fmt: skip
    assert one.tally is None and one.losses is None and one.receipt["law"] == "not told"


def test_a_server_that_refuses_is_told_at_once_and_counted_later():
    with fake_server(lambda body: (500, [b'{"error": {"message": "no room"}}'])) as server:
        arm = server_arm(server)
        with pytest.raises(ConfigError, match=r"arm 'it': the first request failed.*no room"):
            wake(arm, bare_asks()[0])
        found = list(arm.answers(bare_asks()))
    assert ["no room" in one.error for one in found] == [True] * 4
    assert {one.text for one in found} == {""}


def test_a_server_without_usage_gives_no_answer_that_could_be_counted():
    script = [chat_chunk("ab"), chat_chunk("", "stop"), DONE]
    with fake_server(lambda body: (200, script)) as server:
        found = list(server_arm(server).answers(bare_asks()))
    assert {one.error for one in found} == {
        "the server gave no finish reason or no count of tokens"
    }


def test_a_server_of_another_law_is_void():
    metrics = {"speculative_decoding": {"law": "rejection", "positions_decided": 3}}
    script = answer("ab", metrics=metrics)
    with fake_server(lambda body: (200, script)) as server:
        arm = server_arm(server, **{"body.speculative.law": "typical"})
        found = list(arm.answers(bare_asks()))
    assert {one.void for one in found} == {"law rejection ran, typical was asked for"}


def test_a_server_that_takes_text_needs_a_tokenizer():
    with fake_server(lambda body: (200, told("ab"))) as server:
        arm = ServerArm(ready_url_arm(parse_url(f"url:{server.url}"), None, {}), 1)
        with pytest.raises(ConfigError, match="send=tokens, which takes the tokenizer of a model"):
            list(arm.answers(bare_asks()))
