"""The order of a run, going on after an end in the middle, and what must not be mixed."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from tests.support.bench_arms import make_arms, make_plan
from tests.support.openai_server import answer, chunk, fake_server, usage

from leeway.bench import interleaved
from leeway.bench.identity import identity_of, source_digest
from leeway.bench.interleaved import Progress, measure, resume
from leeway.bench.ready_arm import Reader
from leeway.bench.runs import whole_blocks
from leeway.bench.summary import summarise, warnings_of
from leeway.bench.url_arm import ready_url_arm
from leeway.bench.url_spec import UrlSpec
from leeway.bench.window import read_windows
from leeway.bench.workload import Prompt
from leeway.core.errors import ConfigError, ContextLengthError

TEXTS = ["plain", "rejection@draft_model:2", "soft=typical:delta=0.3@draft_model:2"]
NAMES = ["plain", "rejection@draft_model:2", "soft"]


def identity(arms, plan, **changes):
    return identity_of(arms, plan, "ab" * 32, {"draft_model": {"sha256": "cd"}}) | changes


def run(folder=None, texts=TEXTS, done=(), on_block=lambda _: None, **plan):
    arms, made = make_arms(texts), make_plan(**plan)
    return measure(arms, made, identity(arms, made), folder=folder, done=done, on_block=on_block)


def key(window):
    return (window.arm, window.prompt_id, window.seed, window.round)


def test_every_arm_runs_every_request_in_turn():
    windows = list(run(num_seeds=2, num_rounds=2))
    assert len(windows) == len({key(one) for one in windows}) == 3 * 2 * 2 * 2
    for start in range(0, len(windows), 3):
        block = windows[start : start + 3]
        assert len({(one.block, one.request_digest, one.session) for one in block}) == 1
        assert [one.position for one in block] == [0, 1, 2]
        assert sorted(one.arm for one in block) == sorted(NAMES)
    firsts = Counter(one.arm for one in windows if one.position == 0)
    assert max(firsts.values()) - min(firsts.values()) <= 1
    followed = {(one.arm, other.arm) for one, other in pairwise(windows) if other.position}
    assert len(followed) > len(NAMES)  # a fixed cycle would have one follower an arm


def test_rounds_repeat_the_same_tokens_and_seeds_do_not():
    windows = [one for one in run(num_seeds=2, num_rounds=2) if one.prompt_index == 0]
    digests = {}
    for one in windows:
        digests.setdefault((one.arm, one.seed), set()).add(one.output_digest)
    assert all(len(found) == 1 for found in digests.values())
    for name in NAMES:
        assert digests[name, 1] != digests[name, 2]


def test_a_run_that_was_killed_goes_on_block_by_block(tmp_path):
    expected = {key(one): one.output_digest for one in run()}
    started = run(tmp_path)
    killed = [next(started) for _ in range(5)]
    del started
    assert read_windows(tmp_path) == sorted(killed, key=lambda one: (*one.block, one.position))
    arms, plan = make_arms(TEXTS), make_plan()
    done = resume(tmp_path, identity(arms, plan), NAMES)
    assert done == killed[:3]
    said: list[Progress] = []
    rest = list(run(tmp_path, done=done, on_block=said.append))
    assert [one.block for one in rest[:3]] == [killed[3].block] * 3
    assert [(one.num_blocks, one.num_done_before, one.num_measured) for one in said] == [
        (4, 1, 0),
        (4, 1, 1),
        (4, 1, 2),
    ]
    found = resume(tmp_path, identity(arms, plan), NAMES)
    assert {key(one): one.output_digest for one in found} == expected
    assert len({one.session for one in found}) == 2
    assert list(run(tmp_path, done=found)) == []


def test_a_block_that_two_processes_measured_is_not_whole(tmp_path):
    windows = list(run())
    mixed = [replace(windows[0], session="another"), *windows[1:]]
    assert whole_blocks(windows, NAMES) == windows
    assert whole_blocks(mixed, NAMES) == windows[3:]
    assert whole_blocks(windows[1:], NAMES) == windows[3:]


@pytest.mark.parametrize(
    ("name", "value"),
    [("source_sha256", "0" * 64), ("model", {"name": "other", "sha256": "0"}), ("version", "0.0")],
)
def test_another_code_or_model_is_not_mixed_in(tmp_path, name, value):
    list(run(tmp_path, num_seeds=1))
    arms, plan = make_arms(TEXTS), make_plan(num_seeds=1)
    with pytest.raises(ConfigError, match=f"holds windows of another run: {name}"):
        resume(tmp_path, identity(arms, plan, **{name: value}), NAMES)


@pytest.mark.parametrize(
    ("texts", "sampling", "says"),
    [
        ([*TEXTS[:2], "soft=typical:delta=0.4@draft_model:2"], {}, "arms.soft was typical:delta=0"),
        (TEXTS[:2], {}, "arms.soft was"),
        ([TEXTS[1], TEXTS[0], TEXTS[2]], {}, "first_arm was plain"),
        (TEXTS, {"temperature": 0.5}, "sampling.temperature was 1.0 and is 0.5"),
        (TEXTS, {"max_tokens": 13}, "sampling.max_tokens was 12 and is 13"),
        (TEXTS, {"prompts": make_plan().prompts[:1]}, "workload_sha256"),
    ],
)
def test_other_arms_or_requests_are_not_mixed_in(tmp_path, texts, sampling, says):
    list(run(tmp_path, num_seeds=1))
    arms, plan = make_arms(texts), make_plan(num_seeds=1, **sampling)
    with pytest.raises(ConfigError, match=says):
        resume(tmp_path, identity(arms, plan), NAMES)


def test_more_seeds_and_rounds_are_the_same_run(tmp_path):
    first = list(run(tmp_path, num_seeds=1))
    arms, plan = make_arms(TEXTS), make_plan(num_seeds=2, num_rounds=2)
    done = resume(tmp_path, identity(arms, plan), NAMES)
    assert done == first
    rest = list(measure(arms, plan, identity(arms, plan), folder=tmp_path, done=done))
    assert len(rest) == 3 * 2 * 3 and not {one.block for one in rest} & {one.block for one in done}


def test_an_arm_whose_law_was_not_the_one_asked_for_is_void(monkeypatch):
    arms, plan = make_arms(TEXTS), make_plan(num_seeds=1)
    exact = arms[1].law
    monkeypatch.setattr(arms[2].engine, "build_law", lambda _: exact)
    windows = list(measure(arms, plan, identity(arms, plan), folder=None))
    for window in windows:
        if window.arm == "soft":
            assert window.void.startswith("law rejection() ran, typical(")
        else:
            assert window.void is None


def test_a_prompt_that_was_not_read_in_full_is_void(monkeypatch):
    windows = list(run(num_seeds=1))
    assert {one.void for one in windows} == {None}
    assert all(one.prefill_tokens == one.prompt_tokens for one in windows)
    assert {one.category for one in windows} == {None}

    def keeping_a_prefix(self, inputs):
        self.num_read += sum(len(one.token_ids) for one in inputs) - 1
        return self._inner.forward(inputs)

    monkeypatch.setattr(Reader, "forward", keeping_a_prefix)
    [first, *_] = run(num_seeds=1)
    assert first.void == "the target read 2 prompt tokens of 3; prefill has to be cold"


def test_the_cost_that_shortens_drafts_is_part_of_the_run():
    texts = ["plain", "long=rejection@draft_model:3:adaptive", "rejection@draft_model:3"]
    arms, plan = make_arms(texts), make_plan()
    [(name, cost)] = identity(arms, plan)["draft_cost"].items()
    assert name == "long" and cost > 0
    both = replace(arms[2], spec=replace(arms[2].spec, drafter="mtp_ngram"))
    assert list(identity([*arms[:2], both], plan)["draft_cost"]) == ["long", both.spec.name]


@pytest.mark.parametrize("room", ["engine", "grammar"])
def test_the_source_digest_sees_any_change_of_a_measured_room(tmp_path, room):
    (tmp_path / room).mkdir()
    (tmp_path / "cli").mkdir()
    source = tmp_path / room / "engine.py"
    source.write_text("a = 1\n")
    before = source_digest(tmp_path)
    (tmp_path / "cli" / "main.py").write_text("b = 1\n")
    assert source_digest(tmp_path) == before
    source.write_text("a = 2\n")
    assert source_digest(tmp_path) != before
    source.rename(source.with_name("renamed.py"))
    source.with_name("renamed.py").write_text("a = 1\n")
    assert source_digest(tmp_path) != before


def test_a_server_runs_every_request_in_turn_with_the_others(tmp_path):
    plan = make_plan(num_seeds=1, max_tokens=3)

    def respond(body):
        return 200, answer("a", "b", "c", prompt_tokens=len(body["prompt"]))

    with fake_server(respond) as server:
        [own] = make_arms(["plain"])
        spec = UrlSpec("it", server.url)
        arms = [own, ready_url_arm(spec, own.engine.parts.tokenizer, {})]
        windows = list(measure(arms, plan, identity(arms, plan), folder=tmp_path))
    assert [one.position for one in windows] == [0, 1] * 2
    assert {one.arm for one in windows} == {"plain", "it"} and not any(one.void for one in windows)
    for start in range(0, len(windows), 2):
        one, other = windows[start : start + 2]
        assert (one.block, one.request_digest) == (other.block, other.request_digest)
        assert one.prompt_digest == other.prompt_digest
    asked = [tuple(body["prompt"]) for _, body in server.bodies]
    assert asked == [plan.prompts[0].token_ids, *(prompt.token_ids for prompt in plan.prompts)]
    assert [body["seed"] for _, body in server.bodies] == [0, 1, 1]
    assert resume(tmp_path, identity(arms, plan), ["plain", "it"]) == read_windows(tmp_path)
    plain, it = summarise(windows, ["plain", "it"])
    assert it.ratios["decode"] is not None and plain.parts and not it.parts


def test_a_servers_end_in_the_middle_is_kept_and_voids_its_arm(tmp_path):
    plan = make_plan(num_seeds=3, max_tokens=3)
    replies = iter([answer("a"), *[answer("a", "b", "c")] * 2, [chunk("a"), None]])

    def respond(body):
        script = next(replies, None)
        if script is None:
            return 500, [b"gone"]
        return 200, [usage_of(piece, body) for piece in script]

    def usage_of(piece, body):
        is_usage = isinstance(piece, bytes) and b'"usage"' in piece
        return usage(len(body["prompt"]), 3) if is_usage else piece

    with fake_server(respond) as server:
        [own] = make_arms(["plain"])
        arms = [own, ready_url_arm(UrlSpec("it", server.url), own.engine.parts.tokenizer, {})]
        windows = list(measure(arms, plan, identity(arms, plan), folder=tmp_path))
    voids = [one.void for one in windows if one.arm == "it"]
    assert voids[:2] == [None, None] and "stream ended" in voids[2]
    assert [void[-14:] for void in voids[3:]] == ["HTTP 500: gone"] * 3
    assert len(read_windows(tmp_path)) == len(windows) == 12
    summaries = summarise(windows, ["plain", "it"])
    assert summaries[1].ratios["decode"] is None
    assert any("arm it is void: a request failed" in one for one in warnings_of(windows, summaries))


def test_a_prompt_that_does_not_fit_is_refused_before_anything_runs(monkeypatch):
    """However short the uncounted request is, and wherever the prompt stands."""
    arms = make_arms(TEXTS)
    context_len = arms[0].engine.parts.backend.context_len
    plan = make_plan(prompts=[Prompt("short", (0, 1)), Prompt("long", (1,) * context_len)])
    monkeypatch.setattr(interleaved, "WAKE_PROMPT_TOKENS", 2)
    with pytest.raises(ContextLengthError, match=f"the prompt has {context_len} tokens"):
        next(measure(arms, plan, identity(arms, plan), folder=None))
