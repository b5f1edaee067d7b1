"""Engines with a draft head, from configuration to answers, on the real backend."""

import hashlib

import pytest
from tests.support.tabular_engine import ask, run_all, token_ids
from tests.support.tiny_heads import tiny_head_spec, write_tiny_head
from tests.support.tiny_models import write_tiny_gguf

from leeway.core.config import engine_config
from leeway.core.errors import ConfigError, LawError, ModelError
from leeway.core.types import Acceptance
from leeway.drafters.ngram import NGramDrafter
from leeway.engine.load import load_engine

GREEDY = {"temperature": 0.0, "max_tokens": 24}
OPT = Acceptance("opt", {"alpha": 0.1})


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return write_tiny_gguf(folder / "target.gguf", "llama", seed=1)


@pytest.fixture(scope="module")
def head(target, tmp_path_factory):
    folder = tmp_path_factory.mktemp("heads") / "cache" / "heads"
    folder.mkdir(parents=True)
    write_head(folder / "mine.safetensors", target)
    return folder / "mine.safetensors"


def write_head(path, target, sha256=None):
    sha256 = sha256 or hashlib.sha256(target.path.read_bytes()).hexdigest()
    spec = tiny_head_spec(target=target.spec, num_draft_tokens=100, target_sha256=sha256)
    write_tiny_head(path, spec)


def load(target, tmp_path, **settings):
    settings = {"cache_dir": str(tmp_path), "kv_memory": "4MiB", **settings}
    return load_engine(engine_config(model=str(target.path), **settings))


def answer(engine, **sampling):
    deltas = run_all(engine, ask((70, 71, 72, 70, 71, 72, 70), **{**GREEDY, **sampling}))["a"]
    return token_ids(deltas), deltas[-1].receipt


def test_auto_without_a_head_is_ngram(target, tmp_path):
    engine = load(target, tmp_path)
    assert engine.parts.drafter.name == "ngram" and not engine.parts.drafter_settings
    assert answer(engine)[1].drafter == "ngram"


@pytest.mark.parametrize("how", ["auto", "mtp", "path"])
def test_a_head_is_used_and_named(target, head, tmp_path, how):
    if how == "path":
        engine = load(target, tmp_path, head=str(head))
    else:
        engine = load(target, head.parents[1], drafter=how)
    ids, receipt = answer(engine)
    assert engine.parts.drafter.name == receipt.drafter == {"auto": "mtp_ngram"}.get(how, "mtp")
    assert receipt.tally.num_draft_tokens > 0
    assert engine.parts.drafter_settings["name"] == "mine"
    assert engine.parts.drafter_settings["shares_embedding"] is True
    assert ids == answer(load(target, tmp_path, drafter="none"))[0]


def test_mtp_ngram_drafts_with_head_and_lookup(target, head, tmp_path):
    engine = load(target, head.parents[1], drafter="mtp_ngram", draft_temperature=0.5)
    ids, receipt = answer(engine)
    assert engine.parts.drafter.name == receipt.drafter == "mtp_ngram"
    assert engine.parts.drafter_settings["name"] == "mine"
    assert receipt.draft_temperature == 0.5 and receipt.tally.num_draft_tokens > 0
    assert ids == answer(load(target, tmp_path, drafter="none"))[0]
    opt = load(target, tmp_path, drafter="mtp_ngram", head=str(head), acceptance=OPT)
    assert answer(opt, temperature=1.0, seed=1)[1].law == "opt"
    with pytest.raises(ConfigError, match=r"drafter 'mtp_ngram' .* needs a draft head"):
        load(target, tmp_path, drafter="mtp_ngram")


@pytest.mark.parametrize(("drafter", "repeats"), [("auto", False), ("mtp_ngram", True)])
def test_n_grams_draft_under_lossy_laws_only_where_they_are_asked_for(
    target, head, drafter, repeats, monkeypatch
):
    looked_up = []
    find = NGramDrafter.look_up
    monkeypatch.setattr(
        NGramDrafter, "look_up", lambda self, ask: looked_up.append(ask) or find(self, ask)
    )
    engine = load(target, head.parents[1], drafter=drafter)
    _, exact = answer(engine)
    assert exact.drafter == "mtp_ngram" and looked_up
    looked_up.clear()
    lossy = load(
        target, head.parents[1], drafter=drafter, acceptance=Acceptance("typical", {"delta": 0.3})
    )
    assert answer(lossy, temperature=1.0, seed=1)[1].tally.num_draft_tokens > 0
    assert bool(looked_up) == repeats


@pytest.mark.parametrize(
    ("given", "costs"),
    [({}, (0.03, 0.11)), ({"draft_cost": 0.7}, (0.03, 0.7))],
    ids=["usual", "set"],
)
def test_a_given_draft_cost_is_that_of_the_head_beside_ngrams(target, head, tmp_path, given, costs):
    engine = load(target, tmp_path, drafter="mtp_ngram", head=str(head), **given)
    assert engine.parts.drafter._costs == costs


@pytest.mark.parametrize("weights", ["int4", "16bit", "f32"])
def test_greedy_ids_are_the_plain_ones_in_every_precision(target, head, tmp_path, weights):
    plain, _ = answer(load(target, tmp_path, drafter="none", weights=weights))
    engine = load(target, tmp_path, head=str(head), weights=weights, draft_weights=weights)
    assert answer(engine)[0] == plain


def test_sampled_answers_do_not_depend_on_company(target, head, tmp_path):
    engine = load(target, tmp_path, head=str(head), num_speculative_tokens=5)
    requests = [
        ask(tuple(range(70, 70 + 9 * index)), name=f"r{index}", max_tokens=20, seed=index)
        for index in range(1, 6)
    ]
    together = run_all(engine, *requests)
    for request in requests:
        name = request.request_id
        assert token_ids(run_all(engine, request)[name]) == token_ids(together[name])
    engine.parts.drafter.head.check_integrity()
    assert engine.status()["kv_reserved_tokens"] == 0


def test_mtp_without_a_head_says_what_to_do(target, tmp_path):
    with pytest.raises(ConfigError, match=r"leeway heads list.*leeway heads train") as error:
        load(target, tmp_path, drafter="mtp")
    assert "--drafter" in str(error.value) or "argument drafter" in str(error.value)


def test_a_head_for_another_model_is_refused(target, tmp_path):
    write_head(tmp_path / "other.safetensors", target, sha256="cd" * 32)
    with pytest.raises(ModelError, match="was made for"):
        load(target, tmp_path, head=str(tmp_path / "other.safetensors"))


def test_a_law_that_reads_draft_rows_goes_with_a_head_and_not_without(target, head, tmp_path):
    with pytest.raises(LawError, match="'ngram' drafter has none"):
        load(target, tmp_path, acceptance=OPT)
    engine = load(target, head.parents[1], acceptance=OPT)
    ids, receipt = answer(engine, temperature=1.0, seed=1)
    assert receipt.law == "opt" and receipt.drafter == "mtp_ngram" and ids
