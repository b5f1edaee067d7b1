"""Laws that need draft rows are refused beside drafters without, before a model is opened."""

import pytest

from leeway.acceptance.registry import build_law, law_infos
from leeway.core.config import engine_config
from leeway.core.errors import LawError
from leeway.core.types import Acceptance
from leeway.engine.compatibility import check_draft_rows
from leeway.engine.load import load_engine

OPT = Acceptance("opt", {"alpha": 0.1})


def test_point_mass_drafts_are_refused():
    with pytest.raises(LawError, match="would keep every drafted token"):
        check_draft_rows(build_law(OPT), "ngram", gives_rows=False)


def test_draft_rows_or_no_drafts_at_all_are_fine():
    check_draft_rows(build_law(OPT), "draft_model", gives_rows=True)
    check_draft_rows(build_law(OPT), "none", gives_rows=False)
    check_draft_rows(build_law(Acceptance()), "ngram", gives_rows=False)


def test_three_laws_read_draft_rows():
    assert {info.name for info in law_infos() if info.needs_draft_rows} == {
        "opt",
        "diff",
        "tokenv1",
    }


def test_the_refusal_comes_before_the_model_is_opened():
    config = engine_config(model="no-such-model", drafter="ngram", acceptance=OPT)
    with pytest.raises(LawError, match="ngram"):
        load_engine(config)
