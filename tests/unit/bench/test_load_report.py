"""The report of a load test, from its files."""

import json
from pathlib import Path

import pytest

from leeway.bench.load_report import has_levels, level_rows, load_files, read_load_run
from leeway.bench.load_run import SUFFIX
from leeway.bench.traffic import LevelSummary
from leeway.core.errors import ConfigError
from leeway.report.page import MANIFEST, MARKDOWN

IDENTITY = {
    "server": {"settings": {"model": "tiny", "law": "typical", "drafter": "ngram"}},
    "sampling": {"temperature": 0.5, "max_tokens": 8},
    "num_requests": 4,
}


def percentiles(seconds):
    return {"p50": seconds, "p90": 2 * seconds, "p99": 3 * seconds}


def summary(load, tokens_per_s=10.0, **changes):
    given = {
        "load": load,
        "num_requests": 4,
        "num_whole": 4,
        "wall_s": 2.0,
        "requests_per_s": 2.0,
        "tokens_per_s": tokens_per_s,
        "ttft_s": percentiles(0.1),
        "tpot_s": percentiles(0.01),
        "end_to_end_s": percentiles(0.5),
        "late_s": 0.0,
        "errors": {},
    }
    return LevelSummary(**(given | changes))


def write(folder: Path, name, level, one, identity=IDENTITY):
    value = {"schema": 1, "identity": identity, "level": level, "command": "leeway bench load"}
    fields = {field: getattr(one, field) for field in LevelSummary.__dataclass_fields__}
    (folder / (name + SUFFIX)).write_text(json.dumps(value | {"summary": fields}))


def test_a_load_test_in_files_and_its_page(tmp_path):
    assert not has_levels(tmp_path)
    closed = {"rate": None}
    write(tmp_path, "a", closed | {"num_clients": 10}, summary("10 clients", 40.0))
    write(tmp_path, "b", closed | {"num_clients": 2}, summary("2 clients", 20.0))
    failed = {"num_whole": 3, "errors": {"HTTP 500: busy": 1}}
    write(tmp_path, "c", {"num_clients": None, "rate": 0.5}, summary("0.5 requests/s", **failed))
    assert has_levels(tmp_path)
    run = read_load_run(tmp_path)
    assert [one.load for _, _, one in run.levels] == ["2 clients", "10 clients", "0.5 requests/s"]
    files = load_files(run)
    page = files[MARKDOWN].decode()
    assert page.startswith("# Load: tiny\n\ntiny, law typical, drafter ngram, 4 requests a level")
    assert "- **0.5 requests/s: 1 failed: HTTP 500: busy**" in page
    assert page.endswith("    leeway bench load\n") and "## Arms" not in page
    listed = {one["file"]: one for one in json.loads(files[MANIFEST])["charts"]}
    assert list(listed) == ["throughput-by-clients.svg", "latency-by-clients.svg"]
    assert listed["throughput-by-clients.svg"]["alt"] == (
        "all clients together, n = 4: 20 output tokens/s at 2 clients, 40 output tokens/s at 10 "
        "clients"
    )
    assert "p99, n = 4: 1.5 seconds at 2 clients" in listed["latency-by-clients.svg"]["alt"]
    assert "law typical" in listed["latency-by-clients.svg"]["caption"]


def test_rows_in_milliseconds_by_percentile_and_dashes_for_what_is_not_known():
    silent = summary("1 client", None, tpot_s=dict.fromkeys(("p50", "p90", "p99")))
    _, row, other = level_rows([summary("2 clients"), silent])
    assert row[4:] == ["10.0", "100 / 200 / 300", "10.0 / 20.0 / 30.0", "500 / 1000 / 1500"]
    assert other[4] == "-" and other[6] == "- / - / -"


def test_levels_of_two_runs_are_refused(tmp_path):
    level = {"num_clients": 1, "rate": None}
    write(tmp_path, "a", level, summary("1 client"))
    other = IDENTITY | {"num_requests": 5}
    write(tmp_path, "b", level | {"num_clients": 2}, summary("2 clients"), other)
    with pytest.raises(ConfigError, match="levels of another run: num_requests"):
        read_load_run(tmp_path)
    (tmp_path / ("a" + SUFFIX)).write_text("{")
    with pytest.raises(ConfigError, match="no level"):
        read_load_run(tmp_path)
