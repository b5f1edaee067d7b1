"""Certificate and key: what cannot be served is refused before a model is loaded, by file."""

import pytest
from tests.support.certificates import lock_key, make_certificate

from leeway.core.config import resolve
from leeway.core.errors import ConfigError
from leeway.server.tls import check_tls


@pytest.fixture(name="made")
def _made(tmp_path):
    return make_certificate(tmp_path / "own")


def checked(tmp_path, made):
    """Check the two files as a file, a flag and a person would give them."""
    flags = {"tls_cert": str(made.cert), "tls_key": str(made.key)}
    check_tls(resolve(flags, environ={"XDG_CONFIG_HOME": "/x"}, cwd=tmp_path).server)


def refusal(tmp_path, made):
    with pytest.raises(ConfigError) as caught:
        checked(tmp_path, made)
    assert caught.value.exit_code == 2
    return caught.value


def test_a_certificate_with_its_key_is_served_and_neither_is_plain_http(tmp_path, made):
    checked(tmp_path, made)
    check_tls(resolve({}, environ={"XDG_CONFIG_HOME": "/x"}, cwd=tmp_path).server)


@pytest.mark.parametrize("name", ["cert", "key"])
def test_a_file_that_cannot_be_read_is_named(tmp_path, made, name):
    getattr(made, name).unlink()
    error = refusal(tmp_path, made)
    assert error.param == f"tls_{name}"
    assert f"tls_{name} '{getattr(made, name)}' (from --tls-{name}) cannot be read: No such" in (
        error.message
    )
    getattr(made, name).mkdir()
    assert "cannot be read: Is a directory" in refusal(tmp_path, made).message


@pytest.mark.parametrize(
    ("name", "complaint"),
    [("cert", "holds no certificate in PEM form"), ("key", "holds no private key in PEM form")],
)
@pytest.mark.parametrize(
    "content", [b"", b"hello\n", b"\x30\x82\x00"], ids=["empty", "text", "der"]
)
def test_a_file_of_another_kind_is_named(tmp_path, made, name, complaint, content):
    getattr(made, name).write_bytes(content)
    error = refusal(tmp_path, made)
    assert (error.param, complaint in error.message) == (f"tls_{name}", True), error.message


def test_files_that_were_exchanged_are_named(tmp_path, made):
    key = made.key.read_bytes()
    made.key.write_bytes(made.cert.read_bytes())
    made.cert.write_bytes(key)
    assert "tls_cert" in refusal(tmp_path, made).message


def test_the_key_of_another_certificate_is_named(tmp_path, made):
    made.key.write_bytes(make_certificate(tmp_path / "other").key.read_bytes())
    error = refusal(tmp_path, made)
    assert error.param == "tls_key"
    assert f"is not the key of the certificate in {made.cert}" in error.message


def test_a_locked_key_asks_nobody_for_its_passphrase(tmp_path, made):
    lock_key(made.key, b"sesame")
    error = refusal(tmp_path, made)
    assert error.param == "tls_key" and "is locked by a passphrase" in error.message
