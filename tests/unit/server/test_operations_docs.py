"""docs/operations.md and the Containerfile: what they name exists, and what they say holds."""

import configparser
import json
import re
import shlex
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest
from tests.server.fake_service import FakeService

from leeway.core.config import ServerConfig, resolve
from leeway.core.config_settings import SETTINGS
from leeway.server.access_log import Access
from leeway.server.app import _routes
from leeway.server.metrics import PREFIX, ServerMetrics
from leeway.server.run import FLUSH_TIMEOUT_S

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
FLAGS = set(re.findall(r"--[a-z][a-z-]*", (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")))
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", PAGE, re.DOTALL)
PROSE = re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)
CONTAINER = (ROOT / "Containerfile").read_text(encoding="utf-8")


def block(kind):
    [found] = [text for name, text in BLOCKS if name == kind]
    return found


def commands():
    """Return the words of every `leeway` command of the page and the container file."""
    lines = [line for _, text in BLOCKS for line in text.replace("\\\n", "").splitlines()]
    starts = [re.sub(r"^.*?(?=\bleeway(?: serve| models| config| bench))", "", x) for x in lines]
    words = [shlex.split(line) for line in starts if line.startswith("leeway ")]
    words += [shlex.split(one) for one in re.findall(r"`(leeway [^`]+)`", PROSE)]
    return [one for one in words if "docker" not in one]


def test_every_flag_exists():
    named = set(re.findall(r"`(--[a-z][a-z-]*)", PROSE))
    used = {word.split("=")[0] for one in commands() for word in one if word.startswith("--")}
    assert len(commands()) > 8 and {"--tls-cert", "--kv-memory", "--url"} <= used
    assert (named | used) - FLAGS == set()
    assert {SETTINGS[one].flag for one in SETTINGS if SETTINGS[one].group == "server"} - {
        "--port"
    } <= named | used


@pytest.mark.parametrize("text", [PAGE, CONTAINER], ids=["page", "container"])
def test_every_variable_exists(text):
    named = set(re.findall(r"LEEWAY_[A-Z_]+", text))
    assert named and named <= {setting.env for setting in SETTINGS.values()}


def test_every_route_exists():
    served = {route.path for route in _routes()}
    named = set(re.findall(r"`(?:GET )?(/(?:health|metrics|laws|version|tokenize)[a-z/]*)`", PROSE))
    assert {"/health", "/health/live", "/metrics"} <= named <= served


def test_the_file_of_settings_is_one(tmp_path):
    path = tmp_path / "leeway.toml"
    path.write_text(block("toml"))
    server = resolve({}, environ={}, config_path=path).server
    assert (server.log_format, server.request_timeout_s) == ("json", 300)
    assert server.engine.kv_memory_bytes == 2**30
    assert set(tomllib.loads(block("toml"))) <= set(SETTINGS)


def test_every_metric_is_named():
    registry = ServerMetrics(FakeService()).registry
    families = {
        family.name + ("_total" if family.type == "counter" else "")
        for family in registry.collect()
    }
    section = PAGE.split("## Metrics")[1].split("\n## ")[0]
    assert families == {PREFIX + name for name in re.findall(r"`([a-z0-9_]+)`", section) if
                        name not in ("leeway_", "law", "drafter")}  # fmt: skip
    assert set(re.findall(r"leeway_\w+", block_of_queries())) <= families


def block_of_queries():
    return next(text for _, text in BLOCKS if text.startswith("sum(rate("))


def test_the_log_line_has_the_fields_of_one():
    line = json.loads(block("json"))
    names = {one.name for one in fields(Access)}
    assert set(line) == {"time", "level", "message", *names}
    access = Access(**{name: line[name] for name in names})
    assert access.line() == line["message"]


def test_the_unit_waits_longer_than_the_server_needs():
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str
    unit.read_string(block("ini"))
    longest = ServerConfig().drain_timeout_s + FLUSH_TIMEOUT_S
    assert float(unit["Service"]["TimeoutStopSec"]) > longest
    assert re.search(r"terminationGracePeriodSeconds: (\d+)", PAGE)[1] == "45"
    assert re.search(r"docker stop --time (\d+)", PAGE)[1] == "45"
    assert unit["Service"]["ExecStart"].split()[1:3] == ["serve", "--config"]


def test_the_container_is_given_what_the_package_is_made_of():
    copied = [word for line in CONTAINER.splitlines() if line.startswith("COPY ")
              for word in line.split()[1:-1]]  # fmt: skip
    assert all((ROOT / name).exists() for name in copied)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {project["readme"], *project["license-files"], "pyproject.toml", "src"} <= {*copied}
    kept = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert {line.removeprefix("!") for line in kept if line.startswith("!")} == {*copied}
