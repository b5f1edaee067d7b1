"""What the shell offers behind a flag."""

import pytest

from leeway.acceptance.registry import law_infos
from leeway.models.catalogue import CATALOGUE


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["serve", "--law", ""], [info.name for info in law_infos()]),
        (["explain", ""], ["typical", "medusa"]),
        (["serve", "--model", ""], [entry.name for entry in CATALOGUE]),
        (["generate", "--weights", ""], ["int8", "int4", "16bit", "f32"]),
    ],
)
def test_values_are_offered(leeway, words, offered):
    assert set(offered) <= set(leeway("__complete", *words).out.splitlines())


def test_a_switch_takes_no_value(leeway):
    path = leeway.folder / "completion.sh"
    leeway("--install-completion", "--shell", "bash", "--output", str(path))
    taking = next(line for line in path.read_text().splitlines() if "options_with_values=" in line)
    assert "--port " in taking and "--json" not in taking and "--quiet" not in taking
