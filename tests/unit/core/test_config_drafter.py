"""Who drafts, by which layer, and which settings do nothing without a drafter of their kind."""

import pytest
from tests.support.resolved_config import refusal, resolved

from leeway.core.config import engine_config
from leeway.core.errors import ConfigError


def test_draft_model_implies_its_drafter(home, tmp_path):
    config = resolved(home, tmp_path, flags={"draft_model": "d"})
    assert (config.engine.drafter, config.engine.draft_model) == ("draft_model", "d")
    assert config.engine.origin("drafter").name == "--draft-model"


def test_draft_model_drafter_needs_a_model(home, tmp_path):
    assert "--draft-model" in refusal(home, tmp_path, flags={"drafter": "draft_model"})


def test_a_model_for_another_drafter_is_refused(home, tmp_path):
    message = refusal(home, tmp_path, flags={"drafter": "ngram", "draft_model": "d"})
    assert "'d' (from --draft-model) does nothing with drafter 'ngram'" in message


@pytest.mark.parametrize(("name", "drafter"), [("draft_model", "draft_model"), ("head", "mtp")])
def test_a_model_or_head_of_a_higher_layer_decides(home, tmp_path, name, drafter):
    env = {"LEEWAY_DRAFTER": "ngram"}
    config = resolved(home, tmp_path, env=env, flags={name: "d"})
    assert config.engine.drafter == drafter
    assert config.engine.origin("drafter").name == f"--{name.replace('_', '-')}"


def test_a_drafter_of_a_higher_layer_sets_the_model_aside(home, tmp_path):
    config = resolved(home, tmp_path, flags={"drafter": "ngram"}, env={"LEEWAY_DRAFT_MODEL": "d"})
    assert (config.engine.drafter, config.engine.draft_model) == ("ngram", None)


def test_by_default_the_model_decides(home, tmp_path):
    assert resolved(home, tmp_path).engine.drafter == "auto"


@pytest.mark.parametrize("flags", [{}, {"drafter": "auto"}, {"drafter": "mtp"}])
def test_a_head_implies_mtp(home, tmp_path, flags):
    config = resolved(home, tmp_path, flags={"head": "h", **flags}).engine
    assert (config.drafter, config.head) == ("mtp", "h")
    assert config.origin("drafter").name == ("--drafter" if flags else "--head")


def test_a_head_leaves_mtp_ngram_as_named(home, tmp_path):
    flags = {"head": "h", "drafter": "mtp_ngram", "draft_temperature": "0.7"}
    config = resolved(home, tmp_path, flags={**flags, "draft_weights": "int4"}).engine
    assert (config.drafter, config.head, config.draft_weights) == ("mtp_ngram", "h", "int4")
    config = resolved(home, tmp_path, flags={"head": "h"}, file='drafter = "mtp_ngram"\n')
    assert config.engine.drafter == "mtp_ngram" and config.engine.draft_temperature == 0.8


def test_a_head_for_another_drafter_is_refused(home, tmp_path):
    message = refusal(home, tmp_path, flags={"drafter": "none", "head": "h"})
    assert "head 'h' (from --head) does nothing with drafter 'none'" in message
    assert "--drafter mtp" in message


def test_a_drafter_of_a_higher_layer_sets_the_head_aside(home, tmp_path):
    config = resolved(home, tmp_path, flags={"drafter": "none"}, env={"LEEWAY_HEAD": "h"})
    assert (config.engine.drafter, config.engine.head) == ("none", None)


def test_a_draft_model_beside_a_head_is_refused(home, tmp_path):
    message = refusal(home, tmp_path, flags={"draft_model": "d", "head": "h"})
    assert "--draft-model" in message and "--head" in message


@pytest.mark.parametrize("winner", ["draft_model", "head"])
def test_the_higher_layer_decides_between_draft_model_and_head(home, tmp_path, winner):
    loser = {"draft_model": "head", "head": "draft_model"}[winner]
    config = resolved(home, tmp_path, flags={winner: "x"}, file=f'{loser} = "y"\n').engine
    implied = {"draft_model": ("draft_model", "x", None), "head": ("mtp", None, "x")}
    assert (config.drafter, config.draft_model, config.head) == implied[winner]


def test_draft_weights_go_with_a_head(home, tmp_path):
    flags = {"draft_weights": "16bit", "drafter": "mtp"}
    assert resolved(home, tmp_path, flags=flags).engine.draft_weights == "16bit"


@pytest.mark.parametrize(
    ("layers", "origin"),
    [
        ({"flags": {"draft_weights": "int4"}}, "--draft-weights"),
        ({"flags": {"draft_weights": "int4", "drafter": "none"}}, "--draft-weights"),
        ({"env": {"LEEWAY_DRAFT_WEIGHTS": "int8"}}, "LEEWAY_DRAFT_WEIGHTS"),
        ({"file": 'draft_weights = "int4"\n'}, "leeway.toml: draft_weights"),
        (
            {"flags": {"draft_weights": "int4"}, "env": {"LEEWAY_DRAFTER": "ngram"}},
            "--draft-weights",
        ),
    ],
)
def test_draft_weights_need_a_draft_model(home, tmp_path, layers, origin):
    message = refusal(home, tmp_path, **layers)
    assert "draft_weights 'int" in message and origin in message
    assert "does nothing without a draft model or head; give --draft-model" in message


@pytest.mark.parametrize("drafter", ["none", "ngram"])
def test_draft_temperature_needs_a_network_that_drafts(home, tmp_path, drafter):
    flags = {"draft_temperature": "0.7", "drafter": drafter}
    assert "draft_temperature 0.7 (from --draft-temperature) does nothing" in refusal(
        home, tmp_path, flags=flags
    )
    flags["drafter"] = "auto"
    assert resolved(home, tmp_path, flags=flags).engine.draft_temperature == 0.7


@pytest.mark.parametrize("flags", [{"drafter": "none"}, {"draft_model": "off"}])
def test_draft_weights_of_a_lower_layer_are_set_aside(home, tmp_path, flags):
    file = 'draft_model = "d"\ndraft_weights = "int4"\n'
    config = resolved(home, tmp_path, flags=flags, file=file)
    assert (config.engine.draft_model, config.engine.draft_weights) == (None, "int8")
    assert "set aside by --d" in config.engine.origin("draft_weights").name


def test_draft_weights_go_with_a_model_of_another_layer(home, tmp_path):
    config = resolved(home, tmp_path, flags={"draft_weights": "int4"}, file='draft_model = "d"\n')
    assert config.engine.draft_weights == "int4"


def test_draft_weights_argument_alone_is_refused():
    with pytest.raises(ConfigError, match="argument draft_weights"):
        engine_config(draft_weights="int4")
