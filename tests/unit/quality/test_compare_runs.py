"""Arms in pairs, of one folder or of two."""

import pytest
from tests.support.quality_runs import IDENTITY, result

from leeway.core.errors import ConfigError
from leeway.quality.compare_runs import compare_folders
from leeway.quality.results import RESULTS, append_lines, write_info

ARMS = {"arms": {"exact": "rejection", "soft": "typical", "softer": "typical"}}


@pytest.fixture
def folder(tmp_path):
    def make(name="a", num_lost=1, **changes):
        path = tmp_path / name
        path.mkdir()
        write_info(path, IDENTITY | ARMS | changes, ["cmd"])
        append_lines(
            path / RESULTS,
            [
                result(arm, f"t{task}", right=arm == "exact" or task >= num_lost)
                for task in range(6)
                for arm in ("exact", "soft", "softer")
            ],
        )
        return path

    return make


def names(found):
    return [(pair.first, pair.name) for pair in found.pairs]


def test_one_folder_compares_its_first_arm_with_the_others(folder):
    a = folder()
    found = compare_folders(a, None, arm_a=None, arm_b=None, margin=0.03)
    assert names(found) == [("exact", "soft"), ("exact", "softer")] and found.differences == []
    assert [pair.comparison.only_first for pair in found.pairs] == [1, 1]
    found = compare_folders(a, None, arm_a="soft", arm_b="exact", margin=0.03)
    assert names(found) == [("soft", "exact")] and found.pairs[0].comparison.only_second == 1


def test_two_folders_are_paired_and_their_differences_named(folder):
    a, b = folder(), folder("b", num_lost=3, source_sha256="new")
    found = compare_folders(a, b, arm_a="soft", arm_b="soft", margin=0.03)
    assert names(found) == [("soft", "soft")]
    assert found.pairs[0].comparison.only_first == 2
    assert found.differences == [("source_sha256", None, "new")]
    found = compare_folders(a, b, arm_a=None, arm_b=None, margin=0.03)
    assert names(found) == [("exact", "exact"), ("exact", "soft"), ("exact", "softer")]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"sampling": IDENTITY["sampling"] | {"top_k": 5}}, "sampling.top_k is 20 and 5"),
        ({"suite": IDENTITY["suite"] | {"name": "x"}}, "suite.name is letters and x"),
        ({"sampling": IDENTITY["sampling"] | {"seed": 1}}, "sampling.seed is 0 and 1"),
    ],
    ids=["sampler", "suite", "seed"],
)
def test_runs_that_asked_different_things_are_no_pairs(folder, changes, says):
    with pytest.raises(ConfigError, match=f"asked different things: {says}"):
        compare_folders(folder(), folder("b", **changes), arm_a=None, arm_b=None, margin=0.03)


def test_what_is_not_there_is_refused(folder, tmp_path):
    a = folder()
    with pytest.raises(ConfigError, match="has no arm 'sof'; did you mean 'soft'"):
        compare_folders(a, None, arm_a="sof", arm_b=None, margin=0.03)
    with pytest.raises(ConfigError, match="holds no quality run"):
        compare_folders(a, tmp_path / "none", arm_a=None, arm_b=None, margin=0.03)
    with pytest.raises(ConfigError, match="--margin 2 is out of range"):
        compare_folders(a, None, arm_a=None, arm_b=None, margin=2.0)
    (a / RESULTS).unlink()
    with pytest.raises(ConfigError, match="have no task and sample in common"):
        compare_folders(a, None, arm_a=None, arm_b="soft", margin=0.03)
