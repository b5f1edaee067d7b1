"""The ceiling: exact laws and the configured one, or what the operator names."""

import pytest

from leeway.acceptance.law_ceiling import build_ceiling
from leeway.acceptance.presets import PRESETS
from leeway.acceptance.registry import build_law, law_infos
from leeway.core.config_values import DEFAULT_ORIGIN, Origin
from leeway.core.errors import ConfigError, LawError, LawNotAllowedError
from leeway.core.types import Acceptance

EXACT = ("block", "greedy_match", "rejection", "sample_match")


def ceiling(acceptance=None, allow_laws=None, origin=DEFAULT_ORIGIN, **more):
    return build_ceiling(allow_laws, origin, build_law(acceptance or Acceptance()), **more)


def test_by_default_the_exact_laws():
    assert ceiling().allowed == EXACT


@pytest.mark.parametrize("law", [Acceptance("typical", {"delta": 0.3}), Acceptance("medusa")])
def test_by_default_also_the_configured_one(law):
    assert set(ceiling(law).allowed) == {*EXACT, "typical"}


def test_all_means_every_law():
    assert set(ceiling(allow_laws=("all",)).allowed) == {info.name for info in law_infos()}


def test_names_replace_the_default():
    made = ceiling(allow_laws=("typical", "mtplx_485"))
    assert made.allowed == ("tokenv3", "typical")
    assert made.check("typical").name == "typical"
    with pytest.raises(LawNotAllowedError):
        made.check("rejection")


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_counts_as_its_law(preset):
    assert ceiling(allow_laws=("all",)).check(preset.name).name == preset.law
    with pytest.raises(LawNotAllowedError, match=preset.name):
        ceiling().check(preset.name)


def test_a_law_above_the_ceiling_names_the_allowed_ones():
    with pytest.raises(LawNotAllowedError) as caught:
        ceiling().check("typical")
    assert "allowed: block, greedy_match, rejection, sample_match" in caught.value.message
    assert (caught.value.http_status, caught.value.param) == (403, "speculative.law")


def test_an_unknown_law_is_not_a_forbidden_one():
    with pytest.raises(LawError, match="unknown law 'typcal'; did you mean 'typical'") as caught:
        ceiling().check("typcal")
    assert caught.value.http_status == 400


def test_an_unknown_name_in_the_configuration_names_its_origin():
    origin = Origin("env", "LEEWAY_ALLOW_LAWS")
    with pytest.raises(ConfigError, match=r"LEEWAY_ALLOW_LAWS.*'typcal'; did you mean 'typical'"):
        ceiling(allow_laws=("typcal",), origin=origin)


def test_another_server_says_how_its_own_operators_and_clients_write_it():
    made = ceiling(param="leeway_law", setting="allow_laws in --additional-config:")
    with pytest.raises(
        LawNotAllowedError, match="allow_laws in --additional-config: typical"
    ) as at:
        made.check("typical")
    assert at.value.param == "leeway_law"
