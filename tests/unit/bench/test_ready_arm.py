"""Arms that run: one target for all, what is void and what is not."""

from dataclasses import replace

import pytest
from tests.support.bench_arms import TABLE, make_arms
from tests.support.tabular_engine import ask, make_engine, run_all, token_ids

from leeway.backends.tabular import TabularBackend
from leeway.bench.arm_spec import parse_arms
from leeway.bench.part_clock import PartClock
from leeway.bench.ready_arm import ready_arms
from leeway.core.config import EngineConfig
from leeway.core.errors import ConfigError, LawError
from leeway.core.types import Acceptance, SamplingParams
from leeway.drafters.ngram import NGramDrafter
from leeway.engine.self_check import SelfCheck, check_lanes

SAMPLING = SamplingParams(max_tokens=10, seed=3, ignore_eos=True)
PROMPT = (0, 1, 2, 0, 1)
ARMS_OF_OPT = (("free", ""), ("hard", ",hard_support=true"))


def test_all_arms_are_over_one_target_and_leave_nothing_behind():
    arms = make_arms(["plain", "rejection@draft_model:2", "block@ngram:3"])
    backends = {id(arm.engine.parts.backend) for arm in arms}
    assert len(backends) == 1
    for arm in arms:
        run = arm.run(PROMPT, SAMPLING)
        assert len(run.token_ids) == 10 and run.text
        assert arm.fault(run.receipt) is None and arm.note(run.receipt) is None
        assert not arm.engine.has_work
    assert arms[0].engine.parts.backend.num_open() == 0


def test_an_arm_decodes_what_an_engine_of_its_own_would():
    [arm] = make_arms(["typical:delta=0.3@ngram:3"])
    run = arm.run(PROMPT, SAMPLING)
    engine = make_engine(TABLE, drafter="ngram", acceptance=Acceptance("typical", {"delta": 0.3}))
    request = ask(PROMPT, max_tokens=10, seed=3, ignore_eos=True)
    assert run.token_ids == token_ids(run_all(engine, request)["a"])
    assert run.receipt.law == "typical" and run.receipt.drafter == "ngram"


def test_an_arm_with_hard_support_emits_nothing_that_the_target_rules_out():
    free, hard = make_arms([f"{n}=opt:alpha=0.9{h}@draft_model:3" for n, h in ARMS_OF_OPT])
    sampling = replace(SAMPLING, max_tokens=40, top_k=2)
    outside = [arm.run(PROMPT, sampling).receipt.tally.num_outside_support for arm in (free, hard)]
    assert outside[0] > 0 and outside[1] == 0


def test_another_law_than_asked_for_makes_an_arm_void():
    [arm] = make_arms(["typical:delta=0.3@ngram:3"])
    receipt = arm.run(PROMPT, SAMPLING).receipt
    assert arm.fault(receipt) is None
    fault = arm.fault(replace(receipt, law="rejection", options={}))
    assert fault == f"law rejection() ran, typical({_options(receipt)}) was asked for"
    assert "delta=0.4" in arm.fault(replace(receipt, options={**receipt.options, "delta": 0.4}))
    assert arm.fault(replace(receipt, drafter="mtp")) == "drafter mtp ran, ngram was asked for"
    assert "2 draft tokens" in arm.fault(replace(receipt, num_speculative_tokens=2))


def _options(receipt):
    return ", ".join(f"{key}={value}" for key, value in receipt.options.items())


def test_greedy_by_design_is_no_fault_but_is_noted():
    greedy = replace(SAMPLING, temperature=0.0)
    lossy, exact, raw = make_arms(
        [
            "typical:delta=0.3@ngram:3",
            "rejection@ngram:3",
            "raw=typical:delta=0.3,rows=raw@ngram:3",
        ]
    )
    receipt = lossy.run(PROMPT, greedy).receipt
    assert receipt.law == "greedy_match" and lossy.fault(receipt) is None
    assert "greedy_match judged" in lossy.note(receipt)
    receipt = exact.run(PROMPT, greedy).receipt
    assert receipt.law == "rejection" and exact.fault(receipt) is None
    assert exact.fault(replace(receipt, law="greedy_match", options={})) is not None
    receipt = raw.run(PROMPT, greedy).receipt
    assert receipt.law == "typical" and raw.fault(receipt) is None
    assert raw.fault(replace(receipt, law="greedy_match", options={})) is not None


def test_a_law_that_cannot_work_with_the_drafter_is_refused():
    with pytest.raises(LawError, match=r"arm 'o=opt:alpha=0\.5@ngram': law 'opt' reads"):
        make_arms(["o=opt:alpha=0.5@ngram"])
    with pytest.raises(LawError, match="arm 'o': law 'opt' reads"):
        over(AnyShape(TABLE, 1), "o=opt:alpha=0.5@auto:3")


class FixedShape(TabularBackend):
    def describe(self):
        return {"row_shape": "stable"}


class AnyShape(TabularBackend):
    def describe(self):
        return {"row_shape": self.shape}

    def set_row_shape(self, row_shape):
        self.shape = row_shape


def over(backend, *texts, check=None, build=lambda _: NGramDrafter()):
    engine = make_engine(TABLE)
    engine.parts = replace(engine.parts, backend=backend, self_check=check)
    specs = parse_arms(texts, EngineConfig(drafter="ngram"))
    return ready_arms(engine, specs, build, PartClock())


def test_each_arm_has_its_own_row_shape_over_the_same_weights():
    plain, exact = over(AnyShape(TABLE, 1), "plain", "rejection")
    for arm, row_shape in ((plain, "fast"), (exact, "stable"), (plain, "fast")):
        arm.run(PROMPT, SAMPLING)
        assert arm.row_shape == row_shape


class SizedCache(AnyShape):
    def describe(self):
        return super().describe() | {"kv_cache_bytes": 6400, "capacity_tokens": 64}


def test_the_cache_of_a_request_is_counted_in_whole_blocks():
    [arm] = over(SizedCache(TABLE, 1), "plain")
    assert [arm.kv_bytes(num)[0] for num in (1, 4, 5, 64)] == [400, 400, 800, 6400]
    assert arm.kv_bytes(1)[1] == 6400
    [arm] = over(AnyShape(TABLE, 1), "plain")
    assert arm.kv_bytes(5) == (None, None)


def test_a_row_shape_that_cannot_be_had_is_refused():
    with pytest.raises(ConfigError, match="'stable' for good and an arm asks for 'fast'"):
        over(FixedShape(TABLE, 1), "plain")
    [arm] = over(FixedShape(TABLE, 1), "plain/stable")
    assert arm.row_shape == "stable"


def test_one_draft_model_serves_every_draft_temperature():
    cool, same = make_arms(
        [f"rejection@draft_model:2,draft_temperature={scale}" for scale in (0, 1)]
    )
    drafters = [arm.engine.parts.drafter for arm in (cool, same)]
    assert drafters[0] is drafters[1]
    receipts = [arm.run(PROMPT, SAMPLING).receipt for arm in (cool, same)]
    assert [receipt.draft_temperature for receipt in receipts] == [0.0, 1.0]
    off = [receipt.tally.rates()["mean_draft_tv"] for receipt in receipts]
    assert off[0] > off[1]  # a point mass is further from the target's row


def test_auto_is_called_by_what_it_turned_out_to_be():
    [arm] = over(AnyShape(TABLE, 1), "rejection@auto:2")
    assert arm.spec.drafter == "ngram" and "@ngram:2" in arm.spec.text
    assert arm.fault(arm.run(PROMPT, SAMPLING).receipt) is None


class WrongBlocks(AnyShape):
    """A table that likes the unlikeliest token where a forward has all rows of several tokens."""

    def forward(self, inputs):
        output = super().forward(inputs)
        row = 0
        for one in inputs:
            if one.num_logit_rows == len(one.token_ids) > 1:
                rows = output.logits[row : row + one.num_logit_rows]
                rows[...] = -100.0 * (rows > rows.min(axis=-1, keepdims=True))
            row += one.num_logit_rows
        return output


def test_where_the_self_check_declined_blocks_nothing_is_drafted_and_drafting_arms_are_void():
    backend = WrongBlocks(TABLE, 1)
    check = check_lanes(backend, 4, "stable", backend.set_row_shape)
    assert check.declined == "block"
    built = []
    plain, exact, auto = over(
        backend, "plain", "rejection@ngram:3", "typical:delta=0.3@auto:2", check=check,
        build=built.append,
    )  # fmt: skip
    right = plain.run(PROMPT, SAMPLING)
    assert plain.fault(right.receipt) is None and right.receipt.demotion is None
    for arm in (exact, auto):
        run = arm.run(PROMPT, SAMPLING)
        assert run.receipt.tally.num_draft_tokens == 0 and run.receipt.drafter == "none"
        assert run.receipt.demotion == "self_check" and arm.row_shape == "fast"
        assert arm.fault(run.receipt) == (
            "nothing was drafted: the self-check at load declined blocks of drafts "
            "(demotion self_check)"
        )
        assert run.token_ids == right.token_ids
    assert exact.spec.text == "rejection@ngram:3:fixed/stable" and built == []


def test_an_arm_whose_row_shape_the_self_check_declined_runs_in_the_other_and_is_void():
    check = SelfCheck("plain", 0.0, has_same_bits=True)
    plain, exact = over(AnyShape(TABLE, 1), "plain", "rejection@ngram:3", check=check)
    fault = plain.fault(plain.run(PROMPT, SAMPLING).receipt)
    assert plain.row_shape == "stable"
    assert fault == (
        "row shape stable ran, fast was asked for, which the self-check at load declined"
    )
    assert exact.fault(exact.run(PROMPT, SAMPLING).receipt) is None


def test_an_arm_whose_drafter_was_given_up_is_void():
    [arm] = make_arms(["rejection@ngram:3"])
    receipt = arm.run(PROMPT, SAMPLING).receipt
    fault = arm.fault(replace(receipt, demotion="drafter_failed"))
    assert "the drafter failed and was given up" in fault
