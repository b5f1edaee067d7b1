"""From a model to a head file, all stages, on a tiny model with the real backend."""

import json
from dataclasses import replace

import numpy as np
import pytest
from tests.support.evaluation_quotes import KNOWN
from tests.support.tiny_models import (
    random_tensors,
    tiny_spec,
    write_tiny_gguf,
    write_tiny_hf_folder,
)

from leeway.core.errors import ConfigError, ModelError
from leeway.core.types import SamplingParams
from leeway.heads import make
from leeway.heads.dataset import Answer, read_answers
from leeway.heads.make import Plan, draft_vocabulary, make_head, new_head
from leeway.heads.train import Recipe
from leeway.llm import LLM
from leeway.models.head_file import HeadFile
from leeway.models.heads import find_head, open_head
from leeway.models.open import open_model

NUM_PROMPTS = 30


def plan_for(folder, model, **changes):
    """Return a plan that takes seconds: short answers to the prompts of one file."""
    prompts = folder / "prompts.jsonl"
    texts = [f"hello world number {number}" for number in range(NUM_PROMPTS)]
    lines = [json.dumps({"prompt": text}) for text in [*texts, KNOWN[0][1], texts[0]]]
    prompts.write_text("\n".join(lines))
    plan = Plan(
        model=str(model),
        work=folder / "work",
        out=folder / "heads" / "tiny.safetensors",
        prompt_files=(prompts,),
        num_stdlib=0,
        num_own_turns=0,
        num_answer_positions=10_000,
        max_tokens=8,
        num_draft_tokens=100,
        recipe=Recipe(depth=2, num_positions=400, row_len=64, rows=4),
        cache_dir=folder,
    )
    return replace(plan, **changes)


@pytest.fixture(name="made", scope="module")
def _made(tmp_path_factory):
    """Make a head once; return the plan, the report and the stages that were shown."""
    folder = tmp_path_factory.mktemp("made")
    model = write_tiny_hf_folder(folder / "tiny", seed=1)
    plan = plan_for(folder, model.path)
    stages = []
    report = make_head(plan, lambda *told: stages.append(told))
    return plan, report, stages


def test_the_head_file_fits_its_model_and_no_other(made, tmp_path):
    plan, report, _ = made
    target = open_model(plan.model)
    head = HeadFile(plan.out)
    assert head.spec.target_sha256 == target.sha256() and head.spec.depth == 2
    assert head.spec.decoder.num_layers == 1 and len(head.spec.draft_token_ids) == 100
    assert head.metadata.target_name == "tiny"
    assert find_head(target, plan.cache_dir).sha256() == head.sha256()
    assert open_head(str(plan.out), target).sha256() == head.sha256()
    other = open_model(str(write_tiny_hf_folder(tmp_path / "other", seed=2).path))
    assert find_head(other, plan.cache_dir) is None
    with pytest.raises(ModelError, match="was made for 'tiny'"):
        open_head(str(plan.out), other)
    assert all(0 < value < 1 for value in report.sampled + report.full)
    assert len(report.sampled) == 2 and report.num_positions > 0


def test_the_made_head_drafts_for_its_model(made):
    plan, _, _ = made
    settings = {"model": plan.model, "cache_dir": plan.cache_dir, "kv_memory": "16MiB"}
    sampling = SamplingParams(temperature=0.0, max_tokens=24)
    plain = LLM(drafter="none", **settings).generate("hello world", sampling)[0]
    with LLM(drafter="mtp", head=str(plan.out), num_speculative_tokens=3, **settings) as llm:
        drafted = llm.generate("hello world", sampling)[0]
    assert drafted.token_ids == plain.token_ids
    assert drafted.receipt.tally.num_draft_tokens > 10
    with LLM(drafter="auto", **settings) as llm:
        assert llm.engine.parts.drafter.name == "mtp_ngram"


def test_the_file_tells_how_it_was_made(made):
    plan, report, _ = made
    training = HeadFile(plan.out).spec.training
    assert training["prompts"] == {"own turns": 0, "standard library": 0, "prompts.jsonl": 30}
    assert training["prompts_dropped"] == 1
    assert training["positions"] >= 400 and training["steps"] > 0
    assert training["recipe"]["row_len"] == 64
    held_out = training["held_out"]
    assert tuple(held_out["acceptance_by_depth"]) == report.sampled
    assert training["answers"] == 29 == len(read_answers(plan.work)) - 1


def test_the_stages_are_told_in_order(made):
    plan, _, stages = made
    assert list(dict.fromkeys(stage for stage, _, _ in stages)) == ["answers", "training"]
    trained = [(done, total) for stage, done, total in stages if stage == "training"]
    assert trained == sorted(trained) and {total for _, total in trained} == {400}
    assert not list(plan.work.glob("*.part"))


def test_a_second_run_goes_on_and_changes_nothing(made):
    plan, report, _ = made
    before = plan.out.read_bytes()
    answers = {path: path.read_bytes() for path in plan.work.rglob("*.npy")}
    stages = []
    assert make_head(plan, lambda *told: stages.append(told)) == report
    assert plan.out.read_bytes() == before
    assert {path: path.read_bytes() for path in plan.work.rglob("*.npy")} == answers
    assert "training" not in {stage for stage, _, _ in stages}


def test_a_third_run_may_train_longer(made):
    plan, _, _ = made
    longer = replace(plan, recipe=replace(plan.recipe, num_positions=600), num_answer_positions=1)
    stages = []
    make_head(
        replace(longer, out=plan.out.with_name("longer.safetensors")),
        lambda *told: stages.append(told),
    )
    assert {stage for stage, _, _ in stages} == {"training"}
    assert min(done for _, done, _ in stages) > 400
    training = HeadFile(plan.out.with_name("longer.safetensors")).spec.training
    assert training["positions"] >= 600


def test_a_work_folder_that_cannot_be_made_is_refused(made, tmp_path):
    plan, _, _ = made
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"--work .* cannot be written: File exists"):
        make_head(replace(plan, work=tmp_path / "file"))


@pytest.mark.parametrize(
    ("content", "complaint"), [(None, "cannot read prompts"), ('{"x": 1}', "line 1 has no text")]
)
def test_a_prompt_file_is_refused_before_the_model_is_even_opened(tmp_path, content, complaint):
    path = tmp_path / "bad.jsonl"
    if content is not None:
        path.write_text(content)
    plan = plan_for(tmp_path, tmp_path / "no-such-model", prompt_files=(path,))
    with pytest.raises(ConfigError, match=complaint):
        make_head(plan)
    assert not plan.work.exists()


def test_a_work_folder_of_another_model_is_refused(made, tmp_path):
    plan, _, _ = made
    other = write_tiny_hf_folder(tmp_path / "other", seed=2)
    with pytest.raises(ConfigError, match=r"holds answers of 'tiny' .* not of 'other' .*--work"):
        make_head(replace(plan, model=str(other.path)))


def test_too_few_prompts_are_refused_before_training(tmp_path):
    model = write_tiny_hf_folder(tmp_path / "tiny")
    plan = plan_for(tmp_path, model.path, num_answer_positions=1, prompt_files=())
    few = tmp_path / "few.jsonl"
    few.write_text('{"prompt": "hello"}\n{"prompt": "world"}\n')
    with pytest.raises(ConfigError, match=r"has 2 answers, too few.*every 25th.*--prompts"):
        make_head(replace(plan, prompt_files=(few,), num_answer_positions=1000))
    assert not plan.out.exists()


def test_a_bad_prompt_file_is_named_and_nothing_is_written_down(tmp_path):
    model = write_tiny_hf_folder(tmp_path / "tiny")
    bad = tmp_path / "bad.jsonl"
    bad.write_text("{\n")
    plan = plan_for(tmp_path, model.path, prompt_files=(bad,))
    with pytest.raises(ConfigError, match=r"bad\.jsonl, line 1 is not JSON"):
        make_head(plan)
    assert not (plan.work / "prompts.json").exists()


def _without_template(folder):
    model = write_tiny_hf_folder(folder / "tiny", seed=1)
    path = model.path / "tokenizer_config.json"
    config = json.loads(path.read_text())
    del config["chat_template"]
    path.write_text(json.dumps(config))
    return model


def test_a_model_that_does_not_chat_writes_no_turns_but_answers_plain_prompts(tmp_path):
    model = _without_template(tmp_path)
    plan = plan_for(tmp_path, model.path)
    with pytest.raises(ModelError, match=r"tiny has no chat template.*--own-turns 0"):
        make_head(replace(plan, num_own_turns=5))
    make_head(replace(plan, recipe=replace(plan.recipe, num_positions=1)))
    tokens = read_answers(plan.work)[0].token_ids
    assert len(tokens) > 8 and not set(tokens[:5].tolist()) & {0, 1, 2}


def test_prompts_of_all_sources_are_gathered_once(tmp_path, monkeypatch):
    model = write_tiny_hf_folder(tmp_path / "tiny")
    monkeypatch.setattr(make, "own_turns", lambda llm, number, seed: iter(["own"] * number))
    monkeypatch.setattr(make, "stdlib_prompts", lambda seed: iter(map(str, range(50))))
    plan = plan_for(tmp_path, model.path, num_own_turns=3, num_stdlib=20, num_answer_positions=200)
    told = []
    make_head(plan, lambda stage, done, total: told.append((stage, done, total)))
    assert told[:3] == [("user turns", one, 3) for one in (1, 2, 3)]
    written = json.loads((plan.work / "prompts.json").read_text())
    assert written["counts"] == {"own turns": 1, "standard library": 20, "prompts.jsonl": 30}
    assert written["num_dropped"] == 1 and len(written["texts"]) == 51
    assert len(read_answers(plan.work)) <= 51


def test_the_draft_vocabulary_is_what_answers_say_most():
    def answer(tokens, start):
        return Answer(np.array(tokens, np.int32), np.zeros((len(tokens) - 1, 1), np.float16), start)

    # The prompt's 7s do not count; 5 comes three times, 2 and 9 twice, then the lower id of ties.
    answers = [answer([7, 7, 7, 7, 5, 2, 9], 4), answer([7, 5, 5, 9, 2, 4, 1], 1)]
    assert draft_vocabulary(answers, 12, 3).tolist() == [2, 5, 9]
    assert draft_vocabulary(answers, 12, 4).tolist() == [1, 2, 5, 9]
    assert draft_vocabulary(answers, 12, 99).tolist() == list(range(12))


@pytest.mark.parametrize("tied_output", [True, False])
def test_a_new_head_has_what_is_the_target_s(tmp_path, tied_output):
    spec = tiny_spec("llama", tied_output=tied_output)
    factors = np.linspace(1, 4, spec.head_size // 2).astype(np.float32)
    path = tmp_path / "tiny.gguf"
    write_tiny_gguf(path, spec=spec, rope_factors=factors)
    ids = np.array([2, 5, 7])
    head, output = new_head(open_model(str(path)), ids)
    tensors = random_tensors(spec)
    np.testing.assert_allclose(head.embed.float(), tensors["embed"], rtol=1e-2)
    wanted = tensors["embed" if tied_output else "output"]
    np.testing.assert_allclose(output.float(), wanted, rtol=1e-2)
    np.testing.assert_allclose(head.output.float(), wanted[ids], rtol=1e-2)
    np.testing.assert_array_equal(head.rope_factors, factors)
    assert head.spec.num_layers == 1
