"""`bench run` with servers among its arms."""

import json
import sys

import pytest
from tests.support.openai_server import answer, fake_server

from leeway.bench.server_process import free_port, running

ARMS = ("-a", "plain", "-a")


@pytest.fixture
def prompts(leeway):
    path = leeway.folder / "prompts.jsonl"
    lines = [{"id": "a", "prompt": "one two one two one"}, {"id": "b", "prompt": "three four"}]
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return str(path)


def words(prompts, *more):
    flags = ("-n", "3", "--ignore-eos", "--seeds", "2", "--temperature", "0.5")
    return ("bench", "run", *ARMS, *more, "--prompts", prompts, *flags)


def respond(body):
    return 200, answer("a", "b", "c", prompt_tokens=len(body["prompt"]))


def test_a_server_among_arms(on_tiny, prompts):
    out = on_tiny.folder / "run"
    with fake_server(respond) as server:
        spec = f"it=url:{server.url},body.cache_prompt=false"
        outcome = on_tiny(*words(prompts, spec, "--out", str(out), "--json"))
        assert outcome.code == 0, outcome.err
        num_asked = len(server.bodies)
        again = on_tiny(*words(prompts, spec, "--out", str(out)))
        assert again.code == 0 and len(server.bodies) == num_asked  # all was measured before
    assert "not told" in again.out
    plain, it = json.loads(outcome.out)["arms"]
    assert it["definition"] == (f"url:{server.url},model=tiny,send=tokens,body.cache_prompt=false")
    assert (it["void"], it["num_windows"]) == (None, plain["num_windows"]) == (None, 4)
    assert it["ratios"]["decode"]["value"] > 0 and it["peak_memory_bytes"] is None
    assert num_asked == 1 + 4
    for path, body in server.bodies:
        assert path == "/v1/completions" and body["cache_prompt"] is False
        assert (body["temperature"], body["ignore_eos"], body["model"]) == (0.5, True, "tiny")
    assert on_tiny("bench", "report", str(out)).code == 0


def test_what_cannot_be_a_server_is_refused(on_tiny, prompts):
    with fake_server(respond) as server:
        url = server.url
        outcome = on_tiny("bench", "run", "-a", f"url:{url}", "--prompts", prompts)
        assert outcome.code == 2 and "add an arm such as --arm plain" in outcome.err
        outcome = on_tiny(*words(prompts, f"it=url:{url},send=messages"))
        assert outcome.code == 2 and "'a' is not a whole conversation" in outcome.err
    outcome = on_tiny(*words(prompts, f"it=url:{url}"))
    assert outcome.code == 2 and "start the server" in outcome.err
    outcome = on_tiny(*words(prompts, "it=url:host"))
    assert outcome.code == 2 and "has the URL 'host'" in outcome.err


def test_rivals_are_listed_with_why_one_cannot_run(leeway):
    outcome = leeway("bench", "rivals", "--json")
    assert outcome.code == 0, outcome.err
    found = {one["name"]: one for one in json.loads(outcome.out)}
    assert set(found) == {"llama.cpp", "openvino-genai", "transformers", "vllm"}
    for one in found.values():
        assert one["can_run"] == (one["reason"] is None)
    assert not found["vllm"]["can_run"] and not found["transformers"]["can_run"]
    outcome = leeway("bench", "rivals", "--python", "/no/such/python")
    assert outcome.code == 0 and outcome.out.count("cannot run: '/no/such/python'") == 4


def test_a_rival_that_is_not_there_ends_a_run_before_it_begins(on_tiny, prompts):
    outcome = on_tiny(*words(prompts, "it=rival:llama.cpp,python=/no/such/python"))
    assert outcome.code == 2 and "arm 'it': '/no/such/python' cannot be run" in outcome.err
    outcome = on_tiny(*words(prompts, "it=rival:llama"))
    assert outcome.code == 2 and "has the recipe 'llama'; did you mean 'llama.cpp'?" in outcome.err


def test_this_projects_own_server_tells_its_law_and_what_it_accepted(on_tiny, prompts, tiny):
    port = free_port()
    start = "import sys; from leeway.cli.main import main; sys.exit(main())"
    flags = ("--port", str(port), "--drafter", "ngram", "--allow-laws", "all")
    command = [sys.executable, "-c", start, "serve", "--model", tiny, *flags]
    url = f"http://127.0.0.1:{port}/v1"
    law = "body.speculative.law=typical,body.speculative.options.delta=0.3"
    with running("it", command, url):
        specs = (f"exact=url:{url}", "-a", f"soft=url:{url},{law}", "-a", "own=rejection@ngram")
        outcome = on_tiny(*words(prompts, *specs, "--json"), "--num-speculative-tokens", "3")
    assert outcome.code == 0, outcome.err
    plain, exact, soft, own = json.loads(outcome.out)["arms"]
    assert {one["void"] for one in (plain, exact, soft, own)} == {None}
    assert (exact["law"], exact["guarantee"]) == ("rejection", own["guarantee"])
    assert (soft["law"], soft["guarantee"], soft["drafter"]) == ("typical", "none", "ngram")
    assert soft["options"]["delta"] == 0.3
    tokens = exact["estimates"]["tokens_per_verify_step"]["value"]
    assert tokens == own["estimates"]["tokens_per_verify_step"]["value"]
