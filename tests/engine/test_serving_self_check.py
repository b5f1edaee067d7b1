"""The self-check at load: a lane whose rows are wrong is found, said and not used."""

import hashlib

import numpy as np
import pytest
from starlette.testclient import TestClient
from tests.server.conftest import wait_until_ready
from tests.support.tabular_engine import ask, run_all, token_ids
from tests.support.tiny_heads import tiny_head_spec, write_tiny_head
from tests.support.tiny_models import write_tiny_gguf

from leeway.backends.openvino import OpenVINOBackend
from leeway.backends.tabular import TabularBackend, random_table
from leeway.core.config import ServerConfig, engine_config
from leeway.core.errors import BackendError
from leeway.core.types import Request, SamplingParams
from leeway.engine import self_check
from leeway.engine.load import load_engine
from leeway.engine.self_check import check_lanes
from leeway.engine.service import EngineService
from leeway.server.app import create_app

LANES = ("block", "plain", "prompt")


def lane_of(one):
    if len(one.token_ids) == 1:
        return "plain"
    return "block" if one.num_logit_rows == len(one.token_ids) else "prompt"


def spoil(inputs, logits, wrong):
    """Change the rows of a forward by what `wrong` says of their lanes."""
    row = 0
    for one in inputs:
        change = wrong.get(lane_of(one))
        if change is not None:
            rows = logits[row : row + one.num_logit_rows]
            rows[...] = change(rows)
        row += one.num_logit_rows
    return logits


def rolled(by):
    return lambda rows: np.roll(rows, by, axis=-1)


def failing(rows):
    raise BackendError("the kernel failed")


class Lanes(TabularBackend):
    """A table whose forwards are wrong in some lanes; it has a row shape."""

    wrong = {}  # noqa: RUF012
    row_shape = "stable"

    def set_row_shape(self, row_shape):
        self.row_shape = row_shape

    def forward(self, inputs):
        output = super().forward(inputs)
        try:
            spoil(inputs, output.logits, self.wrong)
        except BackendError:
            for one in inputs:
                kept_len = self.cached_len(one.handle) - len(one.token_ids)
                self.truncate(one.handle, kept_len)
            raise
        return output


def checked(wrong, *, kind=Lanes, row_shape="stable", num_block_rows=4):
    backend = kind(random_table(5, 2, seed=1, concentration=0.4), 2, prefill_chunk_len=64)
    backend.wrong, backend.row_shape = wrong, row_shape
    check = check_lanes(backend, num_block_rows, row_shape, backend.set_row_shape)
    assert backend.num_open() == 0 and backend.pool.num_free_blocks == backend.pool.num_blocks
    backend.check_integrity()
    return check, backend


@pytest.mark.parametrize("num_block_rows", [1, 2, 4, 5, 8, 33])
@pytest.mark.parametrize("row_shape", ["stable", "fast"])
def test_t25_lanes_that_agree_are_all_used(row_shape, num_block_rows, caplog):
    check, backend = checked({}, row_shape=row_shape, num_block_rows=num_block_rows)
    assert check.declined is None and check.may_draft and check.has_same_bits
    assert check.largest_tv < 1e-12
    assert (backend.row_shape, backend.prefill_chunk_len) == (row_shape, 64)
    assert check.describe()["declined"] == "none" and not caplog.messages


@pytest.mark.parametrize("change", [rolled(1), failing, lambda rows: rows * np.nan])
@pytest.mark.parametrize("row_shape", ["stable", "fast"])
@pytest.mark.parametrize("lane", LANES)
def test_t25_a_lane_that_disagrees_is_declined_and_the_log_says_so(lane, row_shape, change, caplog):
    check, backend = checked({lane: change}, row_shape=row_shape)
    assert check.declined == check.describe()["declined"] == lane
    assert check.may_draft == (lane != "block")
    assert backend.row_shape == {"block": "fast", "plain": "stable"}.get(lane, row_shape)
    assert backend.prefill_chunk_len == (4 if lane == "prompt" else 64)
    words = {"block": "of a few rows", "plain": "of one row", "prompt": "of many rows"}
    (line,) = caplog.messages
    assert line.startswith(f"self-check: forwards {words[lane]} disagree with all others")


def test_t25_rounding_is_no_fault_and_is_told_where_equal_bits_are_promised(caplog):
    def rounded(rows):
        return rows + 1e-5 * np.arange(rows.shape[-1])

    check, _ = checked({"block": rounded}, row_shape="fast")
    assert check.declined is None and 1e-6 < check.largest_tv < 1e-4 and not caplog.messages
    check, backend = checked({"block": rounded})
    assert check.declined is None and not check.has_same_bits and backend.row_shape == "stable"
    (line,) = caplog.messages
    assert "row shape stable does not give equal bits on this machine" in line


def test_t25_nothing_is_used_where_no_two_lanes_agree():
    wrong = {lane: rolled(by) for by, lane in enumerate(LANES)}
    with pytest.raises(BackendError, match="none of them can be trusted; try another precision"):
        checked(wrong)


class Forgetful(Lanes):
    """Its rollbacks spoil the last token that is kept."""

    def truncate(self, handle, kept_len):
        super().truncate(handle, kept_len)
        if kept_len > 0:
            block, slot = divmod(kept_len - 1, self.block_len)
            place = self.pool.table(handle).ids[block], slot
            self._slots[place] = (self._slots[place] + 1) % self.vocab_size


def test_t25_a_rollback_that_spoils_the_cache_is_found():
    check, _ = checked({}, kind=Forgetful)
    assert check.declined == "block"


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return write_tiny_gguf(folder / "target.gguf", "llama", seed=1)


@pytest.fixture(scope="module")
def head(target, tmp_path_factory):
    path = tmp_path_factory.mktemp("heads") / "mine.safetensors"
    sha256 = hashlib.sha256(target.path.read_bytes()).hexdigest()
    write_tiny_head(path, tiny_head_spec(target=target.spec, target_sha256=sha256))
    return path


@pytest.fixture
def corrupt(monkeypatch):
    """Let a lane of the real backend give wrong rows."""

    def begin(lane):
        forward = OpenVINOBackend.forward

        def wrong(self, inputs):
            output = forward(self, inputs)
            logits = spoil(inputs, output.logits.copy(), {lane: rolled(1)})
            return type(output)(logits, output.hidden)

        monkeypatch.setattr(OpenVINOBackend, "forward", wrong)

    return begin


def settings_of(drafter, target, head):
    return {
        "none": {"drafter": "none"},
        "ngram": {"drafter": "ngram"},
        "draft_model": {"draft_model": str(target.path)},
        "mtp": {"head": str(head)},
        "mtp_ngram": {"head": str(head), "drafter": "mtp_ngram"},
    }[drafter]


REQUEST = Request("a", (70, 71, 72, 70, 71, 72, 70), SamplingParams(temperature=0, max_tokens=12))


def load(target, **settings):
    return load_engine(engine_config(model=str(target.path), kv_memory="4MiB", **settings))


@pytest.mark.parametrize("drafter", ["none", "ngram", "draft_model", "mtp", "mtp_ngram"])
def test_t25_an_engine_without_right_blocks_drafts_nothing_and_serves(
    drafter, target, head, corrupt, tmp_path
):
    options = {"cache_dir": str(tmp_path), **settings_of(drafter, target, head)}
    plain = token_ids(run_all(load(target, drafter="none", row_shape="fast"), REQUEST)["a"])
    corrupt("block")
    engine = load(target, **options)
    deltas = run_all(engine, REQUEST)["a"]
    assert token_ids(deltas) == plain
    receipt = deltas[-1].receipt.to_dict()
    assert receipt["drafter"] == "none" and receipt["drafted"] == 0
    assert receipt["demotion"] == (None if drafter == "none" else "self_check")
    off = run_all(engine, Request("b", (70, 71), REQUEST.sampling, num_speculative_tokens=0))["b"]
    assert off[-1].receipt.demotion is None
    asked = Request("c", (70, 71), REQUEST.sampling, num_speculative_tokens=2)
    assert run_all(engine, asked)["c"][-1].receipt.drafter == "none"


def test_t25_without_the_check_the_same_fault_changes_the_answer(target, corrupt, monkeypatch):
    """The target drafts for itself: whatever its answer is on this machine, there are drafts."""
    own = {"draft_model": str(target.path)}
    plain = token_ids(run_all(load(target, drafter="none"), REQUEST)["a"])
    drafted = run_all(load(target, **own), REQUEST)["a"]
    assert token_ids(drafted) == plain and drafted[-1].receipt.tally.num_draft_tokens > 0
    monkeypatch.setattr(self_check, "MAX_TV", 1.0)
    corrupt("block")
    assert token_ids(run_all(load(target, **own), REQUEST)["a"]) != plain


def test_t25_health_and_answers_say_what_was_declined(target, corrupt):
    corrupt("block")
    config = engine_config(model=str(target.path), kv_memory="4MiB", drafter="ngram")
    service = EngineService(lambda: load_engine(config))
    service.start()
    app = create_app(service, ServerConfig(engine=config))
    with TestClient(app, base_url="http://localhost") as client:
        wait_until_ready(service)
        health = client.get("/health").json()
        body = {"prompt": "hello", "max_tokens": 4, "temperature": 0}
        answer = client.post("/v1/completions", json=body)
        service.stop()
    assert health["status"] == "ready" and health["self_check"]["declined"] == "block"
    assert (health["drafter"]["requested"], health["drafter"]["engaged"]) == ("ngram", "none")
    assert health["settings"]["row_shape"]["value"] == "stable"
    assert health["backend"]["row_shape"] == "fast"
    assert answer.headers["X-Leeway-Drafter"] == "none"
    assert answer.json()["metrics"]["speculative_decoding"]["demotion"] == "self_check"


@pytest.mark.parametrize("lane", ["plain", "prompt"])
def test_t25_other_lanes_cost_no_drafts(lane, target, corrupt):
    corrupt(lane)
    engine = load(target, draft_model=str(target.path))
    receipt = run_all(engine, ask((70, 71, 72), max_tokens=12, seed=1))["a"][-1].receipt
    assert engine.parts.self_check.declined == lane
    assert receipt.demotion is None and receipt.tally.num_draft_tokens > 0
