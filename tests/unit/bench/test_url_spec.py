"""The grammar of servers as arms: every part, and what is refused."""

import pytest

from leeway.bench.any_spec import parse_any
from leeway.bench.arm_spec import ArmSpec
from leeway.bench.rivals import RivalSpec
from leeway.bench.url_spec import UrlSpec, nested, parse_url
from leeway.core.config import EngineConfig
from leeway.core.errors import ConfigError

URL = "http://127.0.0.1:8080/v1"


def test_a_bare_url():
    spec = parse_url(f"url:{URL}/")
    assert spec == UrlSpec(f"url:{URL}/", URL)
    assert spec.text == f"url:{URL},send=tokens"


def test_every_part():
    text = f"it=url:{URL},model=a b,send=text,body.n_probs=3,body.x.y=on,body.x.z=false"
    spec = parse_url(text)
    extra = {"n_probs": 3, "x.y": "on", "x.z": False}
    assert spec == UrlSpec("it", URL, "a b", "text", extra)
    assert nested(extra) == {"n_probs": 3, "x": {"y": "on", "z": False}}
    again = parse_url(f"it={spec.text}")
    assert again == spec and again.text == spec.text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("url:", "has the URL ''"),
        ("url:host", "has the URL 'host'"),
        (f"a b=url:{URL}", "has the name 'a b'"),
        (f"url:{URL},model", "holds 'model'"),
        (f"url:{URL},model=", "holds 'model='"),
        (f"url:{URL},modle=a", "has the option 'modle'; did you mean 'model'?"),
        (f"url:{URL},send=token", "has send=token; did you mean 'tokens'?"),
        (f"url:{URL},model=a,model=b", "gives 'model' twice"),
        (f"url:{URL},body.seed=1", "sets body.seed, which all arms of a run share"),
        (f"url:{URL},body.=1", "has the option 'body.'"),
    ],
)
def test_what_is_no_server_is_refused(text, says):
    with pytest.raises(ConfigError) as caught:
        parse_url(text)
    assert says in caught.value.message


@pytest.mark.parametrize("extra", [{"a": 1, "a.b": 2}, {"a.b": 2, "a": 1}])
def test_a_field_is_a_value_or_an_object(extra):
    with pytest.raises(ConfigError, match=r"body\.a"):
        nested(extra)


def test_servers_stand_among_arms_in_the_order_given():
    config = EngineConfig(drafter="ngram")
    specs = parse_any(
        ["plain", f"it=url:{URL}", "soft=typical:delta=0.3", "r=rival:llama.cpp"], config
    )
    assert [spec.name for spec in specs] == ["plain", "it", "soft", "r"]
    assert [type(spec) for spec in specs] == [ArmSpec, UrlSpec, ArmSpec, RivalSpec]
    with pytest.raises(ConfigError, match="two arms are called 'plain'"):
        parse_any(["plain", f"plain=url:{URL}"], config)
