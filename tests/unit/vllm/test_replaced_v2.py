"""The methods that stand in for Model Runner V2's, called as that runner calls them."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tests.support.vllm_steps import DRAFT_MODEL, NGRAM, settings

from leeway.vllm.decider import Decider, Wish
from leeway.vllm.replaced_v2 import ReplacedV2, Rows, step_of
from leeway.vllm.self_check import chi_square_limit
from leeway.vllm.tally import Tally

CPU = torch.device("cpu")
FLAT, SHARP = [0.4, 0.3, 0.2, 0.1], [0.05, 0.05, 0.85, 0.05]
NUM_STEPS = 2
GREEDY = Wish(None, True, 1)
NUM_DRAWS = 20_000


class Server:
    """As much of vLLM's runner as is read, with requests in slots of our choice."""

    def __init__(self, given=None, drafts=NGRAM, tally=None):
        self.replaced = ReplacedV2(
            Decider(settings(given, drafts=drafts), CPU, tally, lambda wish: wish)
        )
        self.names = {}
        self.temperature = torch.zeros(NUM_DRAWS)
        own = SimpleNamespace(
            apply_sampling_params=lambda logits, *_: logits,
            req_states=SimpleNamespace(index_to_req_id=self.names),
            sampling_states=SimpleNamespace(temperature=SimpleNamespace(gpu=self.temperature)),
        )
        self.sampler = SimpleNamespace(sampler=own, num_speculative_steps=NUM_STEPS)

    def add(self, slot, wish, name=None):
        self.names[slot] = name or f"r{slot}"
        self.temperature[slot] = 0.0 if wish.is_greedy else 1.0
        self.replaced.add_request(lambda *_: None, self.sampler.sampler, slot, wish)

    def finish(self, *names):
        output = SimpleNamespace(finished_req_ids=set(names))
        self.replaced.finish_requests(lambda *_: None, None, output)

    def step(self, slots, rows, drafts, draft_logits=None, chunk_size=None, own=None):
        """Return the tokens of one step; `rows` are probabilities, one more than drafts each."""
        num = np.array([len(one) for one in rows])
        starts = np.concatenate([[0], np.cumsum(num)])
        flat = torch.tensor([row for request in rows for row in request]).log()
        ids = torch.tensor([token for one in drafts for token in [77, *one]])
        expanded = torch.from_numpy(np.repeat(slots, num))
        batch = SimpleNamespace(
            req_ids=[self.names[slot] for slot in slots], cu_num_logits_np=starts
        )

        def chunks(sampler, logits, _):
            assert sampler is self.sampler
            size = chunk_size or len(slots)
            found = []
            for first in range(0, len(slots), size):
                low, high = starts[first], starts[min(first + size, len(slots))]
                found += self.verify(
                    own, logits, draft_logits, ids, expanded, slice(low, high),
                    slots[first : first + size],
                )  # fmt: skip
            return found

        return self.replaced.call(chunks, self.sampler, flat, batch)

    def verify(self, own, logits, draft_logits, ids, expanded, part, slots):
        _, tokens, num_tokens = self.replaced.verify(
            own or refuse, self.sampler, logits[part], draft_logits, ids[part], None, None, None,
            np.array(slots), expanded[part], None, None, ids[part],
        )  # fmt: skip
        assert tokens.dtype == torch.int64
        assert num_tokens.dtype == torch.int32
        kept = zip(tokens.tolist(), num_tokens.tolist(), strict=True)
        return [row[:count] for row, count in kept]


def refuse(*args):
    raise AssertionError("vLLM's own method must not judge")


def test_greedy_requests_of_unequal_blocks():
    server = Server()
    for slot in (5, 3, 9):
        server.add(slot, GREEDY)
    rows = [[FLAT, SHARP, SHARP], [FLAT, FLAT], [SHARP]]
    assert server.step([5, 3, 9], rows, [[0, 2], [3], []]) == [[0, 2, 2], [0], [2]]


@pytest.mark.parametrize("wish", [GREEDY, Wish(None, False, 4)], ids=["greedy", "sampled"])
def test_a_block_ends_before_a_draft_that_is_marked_invalid(wish):
    server = Server()
    server.add(0, wish)
    sure = [0.0, 0.0, 1.0, 0.0]
    assert server.step([0], [[sure, sure, sure]], [[2, -1]]) == [[2, 2]]
    assert server.step([0], [[sure, sure, sure]], [[-1, 2]]) == [[2]]


def test_draft_rows_are_those_of_the_slot_at_the_request_s_temperature():
    server = Server(drafts=DRAFT_MODEL)
    server.add(1, Wish(None, False, 1))
    server.add(0, Wish(None, False, 2))
    decider = server.replaced._decider
    sources = server.replaced._sources
    plan = decider.plan(["r1", "r0"], [sources["r1"], sources["r0"]], sources)
    kept = torch.randn(2, NUM_STEPS, 4)
    rows = Rows(
        np.array([1, 2]), NUM_STEPS, torch.zeros(5, 6), torch.zeros(5, 6), kept,
        torch.tensor([7, 1, 7, 2, 3]), torch.tensor([1, 1, 0, 0, 0]), torch.tensor([0.5, 2.0]),
    )  # fmt: skip
    step = step_of(rows, plan, plan.throw(NUM_STEPS, np.array([True, True])))
    expected = torch.stack([kept[1, 0] / 2, kept[0, 0] / 0.5, kept[0, 1] / 0.5]).softmax(-1)
    assert torch.allclose(step.draft_probs, expected)
    assert step.draft_token_ids.tolist() == [1, 2, 3]
    assert step.target_logits.shape == (3, 4)  # no wider than the draft's, as vLLM has it
    assert step.lengths.tolist() == [1, 2]


@pytest.mark.parametrize("drafts", [NGRAM, DRAFT_MODEL], ids=["point mass", "rows"])
def test_every_token_of_a_block_follows_the_target(drafts):
    server = Server(drafts=drafts)
    slots = list(range(NUM_DRAWS))
    for slot in slots:
        server.add(slot, Wish(None, False, slot))
    generator = torch.Generator().manual_seed(5)
    draft = torch.tensor([0.2, 0.2, 0.1, 0.5])
    tokens = torch.multinomial(draft, NUM_DRAWS, replacement=True, generator=generator)
    draft_logits = None
    if drafts.has_rows:
        draft_logits = draft.log().expand(NUM_DRAWS, NUM_STEPS, 4)
    found = server.step(slots, [[FLAT, SHARP]] * NUM_DRAWS, [[one] for one in tokens.tolist()],
                        draft_logits)  # fmt: skip
    follows(np.bincount([one[0] for one in found], minlength=4), FLAT)
    behind = [one[1] for one in found if len(one) == 2]
    assert len(behind) > NUM_DRAWS / 10
    follows(np.bincount(behind, minlength=4), SHARP)


def follows(counts, row):
    expected = counts.sum() * np.array(row)
    assert ((counts - expected) ** 2 / expected).sum() < chi_square_limit(len(row) - 1)


def test_chunks_decide_as_the_whole_batch():
    found = []
    for chunk_size in (None, 2, 1):
        server = Server({"law": "typical", "delta": 0.3, "allow_laws": "all"})
        for slot in range(5):
            extra = {"leeway_law": "rejection"} if slot % 2 else None
            server.add(slot, Wish(extra, slot == 4, slot))
        rows = [[FLAT, FLAT, SHARP], [FLAT, FLAT], [FLAT], [FLAT, SHARP, FLAT], [FLAT, FLAT, FLAT]]
        drafts = [[3, 2], [1], [], [0, 2], [0, 3]]
        found.append([server.step(list(range(5)), rows, drafts, chunk_size=chunk_size)
                      for _ in range(4)])  # fmt: skip
    assert found[0] == found[1] == found[2]


def test_a_preempted_request_goes_on_with_its_coins_and_another_begins_with_its_own():
    texts = []
    for interruption in ("none", "preempted", "finished"):
        server = Server()
        server.add(0, Wish(None, False, 3))
        text = [server.step([0], [[FLAT, FLAT]], [[3]])]
        if interruption != "none":
            if interruption == "finished":
                server.finish("r0")
            server.add(7, Wish(None, False, 3), name="r0")
        slot = 0 if interruption == "none" else 7
        text += [server.step([slot], [[FLAT, FLAT]], [[3]]) for _ in range(12)]
        texts.append(text)
    assert texts[0] == texts[1]
    assert texts[2][1:] == [texts[2][0], *texts[0][1:12]]


def test_a_batch_that_is_not_known_is_vllm_s_own():
    server = Server()
    server.names[0] = "dummy"
    own = lambda *_: (None, torch.tensor([[1, 2]]), torch.tensor([2], dtype=torch.int32))  # noqa: E731
    assert server.step([0], [[FLAT, FLAT]], [[0]], own=own) == [[1, 2]]
    server.add(1, GREEDY, name="_warmup_0_")
    assert server.step([1], [[FLAT, FLAT]], [[0]], own=own) == [[1, 2]]


def test_what_is_judged_is_counted_and_what_is_not_is_not():
    tally = Tally(meter_every=1)
    server = Server(tally=tally)
    for slot in range(3):
        server.add(slot, GREEDY)
    server.step([0, 1, 2], [[FLAT, FLAT, FLAT], [FLAT, FLAT], [FLAT]], [[0, -1], [-1], []])
    ((_, counts),) = tally.snapshot().items()
    assert (counts["verify_steps"], counts["draft_tokens"], counts["accepted"]) == (1, 1, 1)
