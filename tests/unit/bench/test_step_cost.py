"""What is timed, on a table whose forwards take a known time."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from tests.support.tabular_engine import make_engine

from leeway.backends.tabular import TabularBackend, random_table
from leeway.backends.tabular_head import TabularHead
from leeway.bench import step_cost
from leeway.bench.samples import Samples
from leeway.bench.step_cost import ForwardCell, ForwardTimes, FullBlockDrafter
from leeway.core.types import Acceptance, Draft, Rows, SamplingParams
from leeway.drafters.mtp import MTPDrafter
from leeway.drafters.ngram import NGramDrafter
from leeway.engine.self_check import SelfCheck

TABLE = random_table(4, 1, seed=3, concentration=5.0)


@pytest.fixture
def clock(monkeypatch):
    """A clock that moves only when told: 1 at each look, and 100 more in each forward."""

    class Clock:
        now = 0.0
        forwards = 0

        def perf_counter(self):
            self.now += 1.0
            return self.now

    clock = Clock()
    monkeypatch.setattr(step_cost.time, "perf_counter", clock.perf_counter)
    original = TabularBackend.forward

    def forward(backend, inputs):
        clock.now += 100.0
        clock.forwards += 1
        return original(backend, inputs)

    monkeypatch.setattr(TabularBackend, "forward", forward)
    return clock


def test_samples():
    assert Samples.of([3.0, 1.0, 2.0]) == Samples(2.0, 1.0, 3.0, 3)


def test_forwards_are_timed_alone_and_leave_no_sequence(clock):
    backend = TabularBackend(TABLE, 1)
    cells = [ForwardCell(1, 8), ForwardCell(4, 8), ForwardCell(1, 16)]
    found = step_cost.measure_forwards(backend, cells, [0, 1, 2], 5)
    steady, first = Samples(101.0, 101.0, 101.0, 6), Samples(101.0, 101.0, 101.0, 2)
    assert found == {cell: ForwardTimes(steady, first) for cell in cells}
    assert clock.forwards == 8 // 4 + 16 // 4 + 3 * (1 + 2) * (1 + 10 + 3)
    assert backend.num_open() == 0


def test_a_change_of_shape_is_told_from_steady_forwards(clock, monkeypatch):
    original, last = TabularBackend.forward, []

    def forward(backend, inputs):
        shape = (inputs[0].handle, len(inputs[0].token_ids))
        clock.now += 50.0 * (last[-1:] != [shape])
        last.append(shape)
        return original(backend, inputs)

    monkeypatch.setattr(TabularBackend, "forward", forward)
    cells = [ForwardCell(1, 8), ForwardCell(4, 8)]
    found = step_cost.measure_forwards(TabularBackend(TABLE, 1), cells, [0, 1, 2], 3)
    for times in found.values():
        assert (times.steady.most, times.first.least) == (101.0, 151.0)


def test_prefill_is_prompt_tokens_over_the_time_of_its_forwards(clock):
    backend = TabularBackend(TABLE, 1, prefill_chunk_len=8)
    found = step_cost.measure_prefill(backend, 16, [0, 1, 2], 3)
    assert found == Samples(16 / 201, 16 / 201, 16 / 201, 3)


def test_overhead_is_the_step_less_its_forwards(clock):
    engine = make_engine(TABLE, drafter="ngram")
    settings = [("T=0", SamplingParams(temperature=0.0)), ("T=1", SamplingParams())]
    laws = [Acceptance("rejection"), Acceptance("typical", {"delta": 0.3})]
    cells = step_cost.measure_steps(engine, settings, laws, [0, 1, 2, 3] * 4, 2)
    assert [(cell.sampling, cell.law) for cell in cells] == [
        ("T=0", "rejection"),
        ("T=0", "typical"),
        ("T=1", "rejection"),
        ("T=1", "typical"),
    ]
    assert cells[1].engaged == "greedy_match" and cells[3].engaged == "typical"
    for cell in cells:
        assert cell.forward_s.median == 101.0
        assert cell.overhead_s.median == cell.step_s.median - 101.0
        assert cell.overhead_rate.median == cell.overhead_s.median / cell.step_s.median
        assert cell.step_s.n == cell.overhead_rate.n > 2


def test_only_steps_with_a_full_block_count(clock):
    engine = make_engine(TABLE, drafter="ngram")
    times = step_cost._run(
        engine,
        step_cost.Request("a", (0, 1, 2, 3), SamplingParams(max_tokens=12, seed=1)),
        step_cost._Clock(),
    )
    assert len(times.steps) < 12


def test_the_draft_models_forwards_are_forwards_too(clock):
    engine = make_engine(TABLE, drafter="draft_model", draft_table=TABLE)
    settings = [("T=1", SamplingParams())]
    [cell] = step_cost.measure_steps(engine, settings, [Acceptance("rejection")], [0, 1], 2)
    assert cell.forward_s.median == 4 * 101.0


def test_a_draft_heads_forwards_are_forwards_too(clock, monkeypatch):
    original = TabularHead.forward

    def forward(head, inputs):
        clock.now += 10.0
        return original(head, inputs)

    monkeypatch.setattr(TabularHead, "forward", forward)
    head = TabularHead(TabularBackend(TABLE, 1), [TABLE], 1)
    engine = make_engine(TABLE, drafter=MTPDrafter(head, 4))
    settings = [("T=1", SamplingParams())]
    [cell] = step_cost.measure_steps(engine, settings, [Acceptance("rejection")], [0, 1], 2)
    assert cell.forward_s.median == 3 * 11.0 + 101.0
    assert TabularHead.forward is forward


def test_an_adaptive_engine_is_measured_with_full_blocks_all_the_same(clock):
    engine = make_engine(TABLE, drafter="draft_model", draft_table=TABLE)
    engine.config = replace(engine.config, draft_length="adaptive", draft_cost=9.0)
    settings = [("T=1", SamplingParams())]
    [cell] = step_cost.measure_steps(engine, settings, [Acceptance("rejection")], [0, 1], 2)
    assert cell.forward_s.median == 4 * 101.0


def test_no_steps_are_measured_where_the_self_check_declined_blocks(clock):
    engine = make_engine(TABLE, drafter="ngram")
    engine.parts = replace(engine.parts, self_check=SelfCheck("block", 0.0, True))
    settings = [("T=1", SamplingParams())]
    assert not step_cost.measure_steps(engine, settings, [Acceptance("rejection")], [0, 1], 2)
    assert clock.now == 0


def test_the_backend_is_left_as_it_was():
    original = TabularBackend.forward
    engine = make_engine(TABLE, drafter="ngram")
    settings = [("T=1", SamplingParams())]
    step_cost.measure_steps(engine, settings, [Acceptance("rejection")], [0, 1], 2)
    assert TabularBackend.forward is original


def test_blocks_are_filled_up_behind_what_was_proposed():
    class Ask:
        token_ids = (5, 6, 7, 5)
        num_draft_tokens = 3
        request_id = "a"

    for num_found in range(4):

        class Inner(NGramDrafter):
            def propose(self, asks, num_found=num_found):
                return [Draft((9,) * num_found) for _ in asks]

        [draft] = FullBlockDrafter(Inner()).propose([Ask()])
        assert len(draft.token_ids) == 3
        assert draft.token_ids[:num_found] == (9,) * num_found


@pytest.mark.parametrize("num_found", [1, 3])
def test_blocks_with_rows_are_filled_up_with_their_last(num_found):
    rows = Rows(np.full((num_found, 2), 0.5), np.array([6, 9]))
    raw = np.full((num_found, 10), 0.1)

    class Inner(MTPDrafter):
        def propose(self, asks):
            return [Draft((6, 9, 6)[:num_found], rows, raw) for _ in asks]

    class Ask:
        num_draft_tokens = 3

    full = FullBlockDrafter(Inner(TabularHead(TabularBackend(TABLE, 1), [TABLE], 1), 10))
    [draft] = full.propose([Ask()])
    assert full.gives_rows and draft.token_ids == ((6, 6, 6) if num_found == 1 else (6, 9, 6))
    assert draft.rows.probs.tolist() == [[0.5, 0.5]] * 3 and draft.raw_probs.shape == (3, 10)


def test_rounds_begin_with_another_cell_each():
    firsts = [step_cost._rotated("abc", index)[0] for index in range(-1, 3)]
    assert firsts == ["c", "a", "b", "c"]
    for index in range(3):
        assert sorted(step_cost._rotated("abc", index)) == ["a", "b", "c"]
    assert step_cost._repeat([1, 2], 5) == list(itertools.islice(itertools.cycle([1, 2]), 5))


@pytest.mark.parametrize(
    "rows", [None, Rows(np.full((3, 2), 0.5), np.array([6, 9]))], ids=["none", "rows"]
)
def test_a_full_block_is_not_copied(rows):
    proposed = Draft((6, 9, 6), rows)

    class Inner(NGramDrafter):
        def propose(self, asks):
            return [proposed for _ in asks]

    class Ask:
        num_draft_tokens = 3

    [draft] = FullBlockDrafter(Inner()).propose([Ask()])
    assert draft is proposed
