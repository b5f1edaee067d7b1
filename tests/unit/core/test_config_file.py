"""A configuration file is changed at the keys asked for, and at nothing else."""

import stat
import tomllib

import pytest

from leeway.core.config_file import edit_toml, save_settings
from leeway.core.errors import ConfigError

VALUES = {"num_speculative_tokens": 2, "draft_length": "adaptive", "draft_cost": 0.125}
NEW = 'num_speculative_tokens = 2\ndraft_length = "adaptive"\ndraft_cost = 0.125\n'

CASES = {
    "empty": ("", NEW),
    "replaced with its comment": (
        "# mine\nnum_speculative_tokens  =  5 # was 3\nport = 1\n",
        "# mine\nnum_speculative_tokens  =  2 # was 3\nport = 1\n"
        'draft_length = "adaptive"\ndraft_cost = 0.125\n',
    ),
    "quoted keys and values": (
        "\"draft_length\" = 'fixed'\n'draft_cost'=1e-1 #x\nnum_speculative_tokens = \"3#\"\n",
        '"draft_length" = "adaptive"\n\'draft_cost\'=0.125 #x\nnum_speculative_tokens = 2\n',
    ),
    "before a table": (
        'model = "m"\n\n# the law\n[law_option]\ndelta = 0.3 # kept\ndraft_cost = 7\n',
        f'model = "m"\n{NEW}\n# the law\n[law_option]\ndelta = 0.3 # kept\ndraft_cost = 7\n',
    ),
    "nothing before a table": ("[law_option]\ndelta = 1\n", f"{NEW}[law_option]\ndelta = 1\n"),
    "comments only": ("# nothing yet\n", f"{NEW}\n# nothing yet\n"),
    "no line end at the end": ("port = 1", f"port = 1\n{NEW}"),
    "look-alikes in a text": (
        'stop = ["""\ndraft_cost = 1\n[x]\n""",\n  "b", # two\n]\nport = 1\n',
        f'stop = ["""\ndraft_cost = 1\n[x]\n""",\n  "b", # two\n]\nport = 1\n{NEW}',
    ),
    "a value over several lines": (
        'draft_length = """\nfixed"""\nport = 1\n',
        'draft_length = "adaptive"\nport = 1\nnum_speculative_tokens = 2\ndraft_cost = 0.125\n',
    ),
    "carriage returns": (
        "port = 1\r\ndraft_cost = 1\r\n",
        "port = 1\r\ndraft_cost = 0.125\r\nnum_speculative_tokens = 2\r\n"
        'draft_length = "adaptive"\r\n',
    ),
}


@pytest.mark.parametrize(("text", "edited"), CASES.values(), ids=CASES)
def test_edits(text, edited):
    assert edit_toml(text, VALUES) == edited
    assert tomllib.loads(edited) == {**tomllib.loads(text), **VALUES}
    assert edit_toml(edited, VALUES) == edited


@pytest.mark.parametrize(
    "text",
    [
        "port = \n",
        "[draft_cost]\nx = 1\n",
        "port = 1\nport = 2\n",
    ],
)
def test_what_cannot_be_edited_is_refused(text):
    with pytest.raises(ValueError):
        edit_toml(text, VALUES)


def test_saving_keeps_the_files_mode_and_makes_a_missing_file(tmp_path):
    path = tmp_path / "leeway.toml"
    save_settings(path, VALUES)
    assert path.read_text() == NEW
    path.write_text("port = 1 # one\n")
    path.chmod(0o600)
    link = tmp_path / "link.toml"
    link.symlink_to(path)
    save_settings(link, VALUES)
    assert path.read_text() == f"port = 1 # one\n{NEW}" and link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(one.name for one in tmp_path.iterdir()) == ["leeway.toml", "link.toml"]


@pytest.mark.parametrize("content", [b"port = \n", b"\xff"])
def test_a_file_that_cannot_be_changed_stays_and_says_what_to_set(tmp_path, content):
    path = tmp_path / "leeway.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"leeway\.toml .*draft_cost = 0\.125 by hand"):
        save_settings(path, VALUES)
    assert path.read_bytes() == content
    with pytest.raises(ConfigError, match="cannot be changed"):
        save_settings(tmp_path / "missing" / "leeway.toml", VALUES)


def test_a_failing_write_leaves_nothing_behind(tmp_path, monkeypatch):
    path = tmp_path / "leeway.toml"
    path.write_text("port = 1\n")

    def fail(self, target):
        raise OSError("disk full")

    monkeypatch.setattr(type(path), "replace", fail)
    with pytest.raises(ConfigError, match="disk full"):
        save_settings(path, VALUES)
    assert [one.name for one in tmp_path.iterdir()] == ["leeway.toml"]
    assert path.read_text() == "port = 1\n"
