"""Where a suite's file is found, and what is refused."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import json

import pytest
from tests.support.hub_server import running_hub

from leeway.core.errors import ConfigError, FetchError
from leeway.quality.suites.base import Task
from leeway.quality.suites.data import DataFile, load_tasks
from leeway.quality.suites.registry import suite, suite_names

RECORDS = [{"id": number, "text": f"task {number}"} for number in range(3)]
CONTENT = "".join(json.dumps(record) + "\n" for record in RECORDS).encode()
SHA256 = hashlib.sha256(CONTENT).hexdigest()
FILE = DataFile("tasks.jsonl", "http://127.0.0.1:9/tasks.jsonl.gz", SHA256)


def make_tasks(records):
    return [Task(str(one["id"]), one["text"], {}, 1) for one in records]


def load(file, data_dir, cache_dir, *, offline=True):
    return load_tasks(file, make_tasks, data_dir, cache_dir, offline=offline)


@pytest.mark.parametrize("is_packed", [False, True], ids=["plain", "packed"])
def test_a_folder_comes_first_and_its_digest_is_of_the_unpacked_content(tmp_path, is_packed):
    path = tmp_path / ("tasks.jsonl.gz" if is_packed else "tasks.jsonl")
    path.write_bytes(gzip.compress(CONTENT) if is_packed else CONTENT)
    found = load(FILE, tmp_path, tmp_path / "cache")
    assert [task.task_id for task in found.tasks] == ["0", "1", "2"]
    assert (found.sha256, found.where, found.is_known) == (SHA256, str(path), True)


def test_another_file_of_the_users_own_is_taken_and_said(tmp_path):
    (tmp_path / "tasks.jsonl").write_bytes(CONTENT.splitlines()[0])
    found = load(FILE, tmp_path, tmp_path)
    assert len(found.tasks) == 1 and not found.is_known and found.sha256 != SHA256


@pytest.mark.parametrize(
    "content",
    [b"not json\n", b'{"other": 1}\n', b"\n", b"[1]\n"],
    ids=["no JSON", "other fields", "empty", "no record"],
)
def test_what_is_not_the_suites_file_is_refused(tmp_path, content):
    (tmp_path / "tasks.jsonl").write_bytes(content)
    with pytest.raises(ConfigError, match="give the authors' own file"):
        load(FILE, tmp_path, tmp_path)


def test_a_broken_packed_file_is_refused(tmp_path):
    (tmp_path / "tasks.jsonl.gz").write_bytes(gzip.compress(CONTENT)[:-9])
    with pytest.raises(ConfigError, match="cannot be read"):
        load(FILE, tmp_path, tmp_path)


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"--data-dir .*nowhere"):
        load(FILE, tmp_path / "nowhere", tmp_path)


def test_a_package_is_looked_into_but_not_run(tmp_path, monkeypatch):
    package = tmp_path / "packaged_tasks"
    (package / "data").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('run')\n")
    (package / "data" / "t.jsonl").write_bytes(CONTENT)
    monkeypatch.syspath_prepend(tmp_path)
    file = dataclasses.replace(FILE, package=("packaged_tasks", "data/t.jsonl", "packaged-tasks"))
    assert load(file, None, tmp_path).where == str(package / "data" / "t.jsonl")


def test_it_is_fetched_verified_and_kept(tmp_path):
    with running_hub() as hub:
        hub.files["pages/tasks.jsonl.gz"] = gzip.compress(CONTENT)
        file = dataclasses.replace(FILE, url=f"{hub.endpoint}/pages/tasks.jsonl.gz")
        found = load(file, None, tmp_path, offline=False)
        assert found.is_known and hub.endpoint in found.where
        again = load(file, None, tmp_path, offline=False)
        assert again.where == str(tmp_path / "data" / "tasks.jsonl")
        assert hub.requests == ["GET /pages/tasks.jsonl.gz"]
        assert again.tasks == found.tasks


def test_another_file_from_the_network_is_not_kept(tmp_path):
    with running_hub() as hub:
        hub.files["tasks.jsonl"] = CONTENT + b"\n"
        file = dataclasses.replace(FILE, url=f"{hub.endpoint}/tasks.jsonl")
        with pytest.raises(FetchError, match=f"not {SHA256}"):
            load(file, None, tmp_path, offline=False)
    assert not (tmp_path / "data").exists()


def test_a_spoilt_cache_is_not_used(tmp_path):
    kept = tmp_path / "data" / "tasks.jsonl"
    kept.parent.mkdir()
    kept.write_bytes(CONTENT + b" ")
    with pytest.raises(FetchError, match=r"cache: .* has SHA-256"):
        load(FILE, None, tmp_path)
    with running_hub() as hub:
        hub.files["tasks.jsonl"] = CONTENT
        file = dataclasses.replace(FILE, url=f"{hub.endpoint}/tasks.jsonl")
        assert load(file, None, tmp_path, offline=False).is_known
    assert kept.read_bytes() == CONTENT


def test_what_can_be_had_nowhere_names_every_place_and_the_way_out(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    file = dataclasses.replace(FILE, package=("no_such_package", "x", "no-such-package"))
    with running_hub() as hub:
        file = dataclasses.replace(file, url=f"{hub.endpoint}/gone.jsonl")
        with pytest.raises(FetchError) as caught:
            load(file, folder, tmp_path, offline=False)
    message = caught.value.message
    for words in ("mine: there is neither", "no-such-package is not installed", "404", "Download"):
        assert words in message
    with pytest.raises(FetchError, match="offline was asked for"):
        load(FILE, None, tmp_path, offline=True)


def test_suites_are_found_by_name():
    assert suite_names() == (
        "humaneval",
        "humaneval_plus",
        "mbpp",
        "mbpp_plus",
        "gsm8k",
        "ifeval",
    )
    for name in suite_names():
        found = suite(name)
        assert found.name == name and found.licence and found.source.startswith("https://")
    with pytest.raises(ConfigError, match=r"unknown suite 'humanevl'; did you mean 'humaneval'"):
        suite("humanevl")
