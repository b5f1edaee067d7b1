"""Every drafter that can be asked for is there under its own name."""

from leeway.core.config_drafter import TAKERS, WITH_HEAD
from leeway.core.config_settings import DRAFTERS as NAMES
from leeway.drafters.mtp import MTPDrafter
from leeway.drafters.registry import DRAFTERS


def test_names_are_those_of_the_setting():
    assert {"auto", *DRAFTERS} == set(NAMES)
    assert all(one.name == name for name, one in DRAFTERS.items())


def test_those_with_a_head_are_those_that_take_one_and_give_rows():
    with_head = tuple(name for name, one in DRAFTERS.items() if issubclass(one, MTPDrafter))
    assert with_head == WITH_HEAD == TAKERS["head"][:2]
    drawn = {name for name, one in DRAFTERS.items() if one.gives_rows}
    assert drawn == {"draft_model", *WITH_HEAD}
