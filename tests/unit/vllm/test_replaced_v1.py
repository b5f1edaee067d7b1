"""The function that stands in for Model Runner V1's, called as that runner calls it."""

from types import SimpleNamespace

import pytest
import torch
from tests.support.vllm_steps import NGRAM, settings

from leeway.core.errors import BackendError
from leeway.vllm import decider as module
from leeway.vllm.decider import Decider, Wish
from leeway.vllm.replaced_v1 import ReplacedV1
from leeway.vllm.tally import Label, Tally

CPU = torch.device("cpu")
FLAT = [0.4, 0.3, 0.2, 0.1]
LOSSY = {"law": "typical", "delta": 0.5, "allow_laws": "all"}
KEEP_ALL = {"leeway_law": "typical", "leeway_delta": 1e-9}


class Runner:
    """As much of vLLM's runner as is read: requests by id, and the batch's order."""

    def __init__(self, **wishes):
        self.requests = {
            name: SimpleNamespace(sampling_params=wish) for name, wish in wishes.items()
        }
        self.input_batch = SimpleNamespace(req_ids=list(wishes))


def make(given=LOSSY, tally=None):
    return ReplacedV1(Decider(settings(given, drafts=NGRAM), CPU, tally, lambda wish: wish))


def call(replaced, runner, drafts, raw=None):
    """Return the tokens of one step in which every target row is FLAT."""
    num = [len(one) for one in drafts]
    ids = [token for one in drafts for token in one]
    logits = torch.tensor([FLAT] * len(ids)).log()
    places = SimpleNamespace(target_logits_indices=torch.arange(len(ids)))

    def sample(own, given, metadata):
        assert (own, metadata) == (runner, places)
        return replaced.rejection_sample(
            refuse,
            torch.tensor(ids, dtype=torch.int32),
            num,
            max(num),
            torch.tensor(num, dtype=torch.int32).cumsum(0),
            None,
            logits,
            torch.tensor([[9]] * len(num)),
            None,
            synthetic_mode=False,
        )

    return replaced.sample(sample, runner, logits if raw is None else raw, places).tolist()


def refuse(*args, **kwargs):
    raise AssertionError("vLLM's own function must not judge")


def test_each_request_by_its_own_law_and_temperature():
    runner = Runner(
        a=Wish(None, True, 1), b=Wish(KEEP_ALL, False, 2), c=Wish({"leeway_law": "block"}, True, 3)
    )
    found = call(make(), runner, [[0, 3], [3, 3], [1]])
    assert found == [[0, 0, -1], [3, 3, 9], [0, -1, -1]]


def test_the_same_seed_has_the_same_tokens_in_any_batch():
    alone = call(make(), Runner(a=Wish(None, False, 7)), [[3, 2, 1]])
    among = call(make(), Runner(x=Wish(None, False, 1), y=Wish(None, False, 7)), [[2], [3, 2, 1]])
    assert among[1] == alone[0]


def test_raw_rows_are_those_before_the_request_s_own_changes():
    wish = Wish({"leeway_delta": 0.1, "leeway_rows": "raw"}, True, 1)
    sharp = torch.tensor([[1.0, 0.0, 0.0, 0.0]]).log()
    assert call(make(), Runner(a=wish), [[3]]) == [[3, 9]]
    assert call(make(), Runner(a=wish), [[3]], raw=sharp) == [[0, -1]]


def test_a_call_outside_a_step_is_vllm_s_own():
    seen = []
    answer = make().rejection_sample(
        lambda *args, **kwargs: seen.append((args, kwargs)) or "own", 1, 2, 3, 4, 5, 6, 7, 8, x=9
    )
    assert (answer, seen) == ("own", [((1, 2, 3, 4, 5, 6, 7, 8), {"x": 9})])


def test_a_step_without_drafts_is_vllm_s_own():
    assert make().sample(lambda *args: args, "runner", "logits", None) == ("runner", "logits", None)


def test_what_ran_is_counted():
    tally = Tally(meter_every=1)
    runner = Runner(a=Wish(None, True, 1), b=Wish(KEEP_ALL, False, 2))
    call(make(tally=tally), runner, [[0, 3], [3, 3]])
    greedy = Label("greedy_match", "exact_greedy", "greedy")
    typical = Label("typical", "none", "point_mass")
    found = tally.snapshot()
    assert {label: counts["accepted"] for label, counts in found.items()} == {greedy: 1, typical: 2}
    assert found[typical]["loss_total_variation"] == pytest.approx(1.8)  # TV(one-hot, FLAT), twice


def test_each_kind_of_law_is_checked_once_before_it_judges(monkeypatch):
    checked = []
    monkeypatch.setattr(module, "check_law", lambda law, *_, **__: checked.append(law.info.name))
    replaced = make()
    assert checked == ["typical"]
    for seed, law in enumerate(["lenient", "lenient", "block"]):
        extra = {"leeway_law": law, **({"leeway_leniency": 0.5} if law == "lenient" else {})}
        call(replaced, Runner(a=Wish(extra, False, seed)), [[1]])
    assert checked == ["typical", "lenient", "block"]


def test_a_law_that_fails_its_check_judges_nothing(monkeypatch):
    def fails(*args, **kwargs):
        raise BackendError("differs")

    monkeypatch.setattr(module, "check_law", fails)
    with pytest.raises(BackendError):
        make()
