"""Keys from a file: one a line, remarks left out; what holds none is refused."""

import pytest

from leeway.core.config import ServerConfig
from leeway.core.config_values import Origin
from leeway.core.errors import ConfigError
from leeway.server.api_key import accepted_keys

ORIGIN = {"api_key_file": Origin("env", "LEEWAY_API_KEY_FILE")}


def keys(path, content=None, **more):
    if content is not None:
        path.write_bytes(content)
    return accepted_keys(ServerConfig(api_key_file=path, origins=ORIGIN, **more))


def test_no_key_is_asked_for_by_default():
    assert accepted_keys(ServerConfig()) == ()
    assert accepted_keys(ServerConfig(api_key="one")) == ("one",)


def test_a_file_has_one_key_a_line(tmp_path):
    content = "# of the editor\n  first \r\n\n#second\nthïrd\n".encode()
    assert keys(tmp_path / "keys", content) == ("first", "thïrd")
    assert keys(tmp_path / "keys", b"only") == ("only",)


def test_the_key_of_a_flag_is_one_more(tmp_path):
    assert keys(tmp_path / "keys", b"two\n", api_key="one") == ("one", "two")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "cannot be read: No such file"),
        (b"", "holds no key; write one a line"),
        (b"\n # nobody \n", "holds no key"),
        (b"ab\xff\n", "is no text in UTF-8"),
    ],
    ids=["missing", "empty", "remarks", "bytes"],
)
def test_a_file_without_keys_is_refused_by_name(tmp_path, content, reason):
    path = tmp_path / "keys"
    with pytest.raises(ConfigError) as caught:
        keys(path, content, api_key="one")
    assert caught.value.message.startswith(f"api_key_file '{path}' (from LEEWAY_API_KEY_FILE) ")
    assert reason in caught.value.message and caught.value.param == "api_key_file"
