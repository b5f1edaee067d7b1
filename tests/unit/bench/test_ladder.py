"""A ladder from windows whose every figure is known."""

from dataclasses import replace
from xml.etree import ElementTree

import pytest
from tests.support.bench_windows import IDENTITY, window

from leeway.bench.ladder import (
    CHART,
    added_ms,
    has_rungs,
    in_order,
    ladder_chart,
    ladder_tables,
    parse_contexts,
    read_ladder,
    rung_folder,
    rung_of,
    to_16bit,
)
from leeway.bench.report import ladder_files
from leeway.bench.window import write_window
from leeway.core.errors import ConfigError
from leeway.report.page import HTML

MIB = 2**20
SVG = "{http://www.w3.org/2000/svg}"


def rung_windows(context_len, kv_cache="16bit", step_s=0.1, speedup=2.0, **identity):
    """Return windows of two arms; 10 steps behind the first token, the second arm's quicker."""
    facts = {
        "arms": {"plain": "plain", "fast": "fast"},
        "sampling": {
            "temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "max_tokens": 11,
        },
        "model": {"name": "m"},
        "backend": {"kv_cache": kv_cache},
        "workload_sha256": str(context_len),
        "version": "1",
        "machine": {**IDENTITY["machine"], "cpu_model": "chip"},
    } | identity  # fmt: skip
    kv_bytes = context_len * MIB // (512 if kv_cache == "16bit" else 1024)
    return [
        window(
            arm, 0, seed, 1, 11, decode_s=10 * step_s / (speedup if arm == "fast" else 1),
            identity=facts, prompt_tokens=context_len - 11, ttft_s=context_len / 512,
            request_digest=f"{context_len}-{seed}", kv_bytes=kv_bytes, kv_cache_bytes=64 * MIB,
            peak_memory_bytes=100 * MIB + kv_bytes,
        )
        for seed in (1, 2)
        for arm in ("plain", "fast")
    ]  # fmt: skip


def ladder():
    return in_order(
        [
            rung_of(rung_windows(1024, step_s=0.16)),
            rung_of(rung_windows(512, "u8", step_s=0.05)),
            rung_of(rung_windows(512)),
        ]
    )


def test_contexts_are_read_and_put_in_order():
    assert parse_contexts("2K, 512,1k") == [512, 1024, 2048]
    for text, says in (("512,x", "has 'x'"), ("0", "has '0'"), ("1K,1024", "gives 1024 twice")):
        with pytest.raises(ConfigError, match=says):
            parse_contexts(text)


def test_a_rung_says_itself_what_it_is():
    assert [(one.kv_cache, one.context_len) for one in ladder()] == [
        ("16bit", 512),
        ("16bit", 1024),
        ("u8", 512),
    ]
    assert ladder()[0].wall_s("fast") == pytest.approx(1 + 0.5)


def test_the_tables_by_hand():
    speed, memory = ladder_tables(ladder())
    assert [row[:3] for row in speed[1:3]] == [["512", "16bit", "plain"], ["512", "16bit", "fast"]]
    ends = ["501", "1.00"]
    assert speed[1][3:] == ["10.00 (10.00-10.00)", "10.0-10.0", "1", "-", *ends, "2.00"]
    double = "2.00 (2.00-2.00)"
    assert speed[2][3:] == ["20.00 (20.00-20.00)", "20.0-20.0", double, "-", *ends, "1.50"]
    assert speed[5][3:7] == ["20.00 (20.00-20.00)", "20.0-20.0", "1", double]
    assert memory[1][3:] == ["100.00", "-", "1.0", "101.0", "100.0", "64.0"]
    assert memory[3][3:] == ["160.00", "60.000", "2.0", "102.0", "100.0", "64.0"]
    assert memory[5][3:] == ["50.00", "-", "0.5", "100.5", "100.0", "64.0"]
    for rows in (speed, memory):
        assert {len(row) for row in rows} == {len(rows[0])} and len(rows) == 7


def test_what_is_not_known_is_no_number():
    short, long, _ = ladder()
    one, other = short.summaries[0], long.summaries[0]
    assert added_ms(other, one) == pytest.approx(60)
    assert added_ms(one, None) is None
    assert added_ms(other, replace(one, kv_bytes=None)) is None
    assert added_ms(one, one) is None and added_ms(replace(other, parts={}), one) is None


def test_caches_are_compared_over_the_same_requests_only():
    rungs = ladder()
    assert to_16bit(rungs, rungs[2], "plain").value == pytest.approx(2)
    assert to_16bit(rungs, rungs[0], "plain") is None
    other = rung_of(rung_windows(512, "u8", workload_sha256="another"))
    assert to_16bit(rungs, other, "plain") is None


def test_rungs_of_different_runs_are_refused():
    rungs = [rung_of(rung_windows(512)), rung_of(rung_windows(1024, version="2"))]
    with pytest.raises(ConfigError, match="version is 1 at context 512 and 2 at 1024"):
        in_order(rungs)


def test_a_void_arm_is_said_and_in_no_chart():
    windows = rung_windows(512)
    windows = [replace(one, void="x") if one.arm == "fast" else one for one in windows]
    rungs = [rung_of(windows)]
    speed, memory = ladder_tables(rungs)
    assert speed[2][2:] == ["fast", "void", *"------"] and len(memory) == 2
    assert "fast" not in ladder_chart(rungs).alt
    void = [rung_of([replace(one, void="x") for one in windows])]
    assert ladder_chart(void) is None


def test_the_chart_has_a_curve_for_each_arm_and_cache():
    chart = ladder_chart(ladder())
    root = ElementTree.fromstring(chart.svg)
    texts = [node.text for node in root.iter(f"{SVG}text")]
    for label in ("plain, n = 2, 16bit", "fast, n = 2, 16bit", "fast, n = 2, u8"):
        assert label in texts
    assert "plain, n = 2, 16bit: 10.0 tokens/s at 512, 6.2 tokens/s at 1024" in chart.alt
    assert {"512", "1024"} <= set(texts) and chart.file == CHART


def test_bars_of_the_chart_reach_from_the_slowest_to_the_fastest_request():
    windows = rung_windows(512)
    first = next(one for one in windows if one.arm == "plain")
    slower = replace(first, decode_s=2 * first.decode_s)
    drawn = ladder_chart([rung_of([slower if one is first else one for one in windows])])
    hints = [node.text for node in ElementTree.fromstring(drawn.svg).iter(f"{SVG}title")]
    assert hints == ["512: 7.5 (5-10)", "512: 20 (20-20)"]


def test_a_ladder_in_folders_and_its_page(tmp_path):
    assert not has_rungs(tmp_path)
    for rung in ladder():
        folder = rung_folder(tmp_path, rung.kv_cache, rung.context_len)
        folder.mkdir()
        for one in rung.windows:
            write_window(folder, 0, one)
    assert has_rungs(tmp_path) and not has_rungs(folder)
    found = read_ladder(tmp_path)
    assert [one.summaries for one in found] == [one.summaries for one in ladder()]
    files = ladder_files(found, ["mind this"])
    assert files[CHART] in files[HTML] and b"mind this" in files[HTML]
    assert b"ms/MiB" in files[HTML]
