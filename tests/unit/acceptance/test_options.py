import json
import math

import pytest

from leeway.acceptance.options import allowed, resolve
from leeway.acceptance.registry import law_infos
from leeway.core.errors import LawError

INFOS = {info.name: info for info in law_infos()}


def test_defaults_are_filled_in():
    assert resolve(INFOS["typical"], {"delta": 0.2}) == {
        "delta": 0.2,
        "eps": 1.0,
        "off_set": "redraw",
        "rows": "processed",
        "verifier": "token",
    }


def test_numbers_may_come_as_text_and_integers():
    assert resolve(INFOS["typical"], {"delta": "0.2", "eps": 1})["delta"] == 0.2
    options = resolve(INFOS["relaxed_top_k"], {"rank": "10", "delta": 0})
    assert (options["rank"], options["delta"]) == (10, 0.0)
    assert isinstance(options["rank"], int)
    assert resolve(INFOS["relaxed_top_k"], {"rank": 4.0})["rank"] == 4


def test_minus_infinity_is_kept_in_a_form_that_json_can_carry():
    options = resolve(INFOS["opt"], {"alpha": -math.inf})
    assert options["alpha"] == "-inf"
    assert json.loads(json.dumps(options, allow_nan=False)) == options


@pytest.mark.parametrize(
    ("law", "given", "words"),
    [
        ("typical", {"delta": 0}, ["0", "> 0"]),
        ("typical", {"delta": -1.5}, ["-1.5", "> 0"]),
        ("typical", {"delta": math.nan}, ["nan", "> 0"]),
        ("typical", {"delta": math.inf}, ["inf", "> 0"]),
        ("typical", {"delta": 0.1, "eps": 1.5}, ["1.5", "(0, 1]"]),
        ("typical", {"delta": "high"}, ["'high'", "> 0"]),
        ("typical", {"delta": True}, ["True", "> 0"]),
        ("typical", {"delta": None}, ["None", "> 0"]),
        ("typical", {"delta": 10**400}, ["> 0"]),
        ("typical", {"delta": 0.1, "off_set": "pie"}, ["'pie'", "did you mean 'pi'", "argmax"]),
        ("typical", {"delta": 0.1, "off_set": 1}, ["1", "redraw"]),
        ("typical", {"delta": 0.1, "rows": "unscaled"}, ["'unscaled'", "processed, raw"]),
        ("typical", {"delta": 0.1, "verifier": "match"}, ["'match'", "token, block"]),
        ("tokenv2", {"alpha": 1.01}, ["1.01", "[-1, 1]"]),
        ("tokenv3", {"alpha": -0.1}, ["-0.1", "[0, 1]"]),
        ("relaxed_top_k", {"rank": 0, "delta": 0.1}, ["0", ">= 1"]),
        ("relaxed_top_k", {"rank": 2.5, "delta": 0.1}, ["2.5", "an integer >= 1"]),
        ("clip", {"c1": 0.9}, ["0.9", ">= 1"]),
        ("opt", {"alpha": math.inf}, ["inf", "any number", "-inf"]),
        ("lenient", {"leniency": 0}, ["0", "(0, 1]"]),
        ("tv_budget", {"budget": 2}, ["2", "[0, 1]"]),
    ],
)
def test_bad_values_name_the_value_what_is_allowed_and_the_next_step(law, given, words):
    with pytest.raises(LawError) as caught:
        resolve(INFOS[law], given)
    for word in [*words, repr(law), "`leeway laws`"]:
        assert word in caught.value.message
    assert caught.value.param in given


def test_unknown_and_missing_options():
    with pytest.raises(
        LawError, match=r"no option 'detla'; did you mean 'delta'.*takes delta, eps"
    ):
        resolve(INFOS["typical"], {"detla": 1})
    with pytest.raises(LawError, match="no option 'zzz'; it takes delta"):
        resolve(INFOS["typical"], {"zzz": 1})
    with pytest.raises(LawError, match="takes no options"):
        resolve(INFOS["rejection"], {"delta": 1})
    with pytest.raises(LawError, match=r"needs its option 'alpha' \(.*\); `leeway explain opt`"):
        resolve(INFOS["opt"], {})
    with pytest.raises(LawError) as caught:
        resolve(INFOS["typical"], {})
    assert caught.value.message == (
        "law 'typical' needs its option 'delta' (a number > 0); "
        "`leeway explain typical` says what it means"
    )


def test_no_refusal_speaks_of_flags():
    for info in INFOS.values():
        for given in ({}, {"zzz": 1}, {knob.name: "zzz" for knob in info.knobs}):
            try:
                resolve(info, given)
            except LawError as error:
                assert "--" not in error.message


def test_every_knob_says_what_is_allowed():
    for info in INFOS.values():
        for knob in info.knobs:
            assert allowed(knob)
            assert knob.meaning
            assert knob.is_required or knob.default is not None or info.name == "relaxed_top_k"
