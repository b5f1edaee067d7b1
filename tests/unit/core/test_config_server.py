"""The server's own settings: origins as browsers write them, a certificate only with its key."""

import pytest

from leeway.core.config import resolve
from leeway.core.config_server import MAX_BODY_BYTES
from leeway.core.errors import ConfigError

CERT, KEY = {"tls_cert": "/c.pem"}, {"tls_key": "/k.pem"}


@pytest.fixture(name="resolved")
def _resolved(tmp_path):
    """Resolve in a place of one's own: flags, an environment, a file."""

    def run(flags=None, env=None, file=None):
        (tmp_path / "leeway.toml").write_text(file or "")
        return resolve(flags, environ={"XDG_CONFIG_HOME": "/x", **(env or {})}, cwd=tmp_path).server

    return run


@pytest.mark.parametrize(
    ("given", "origins"),
    [
        ("https://app.example.org", ("https://app.example.org",)),
        ("HTTPS://App.Example.org:443", ("https://app.example.org",)),
        (
            "http://localhost:80, http://localhost:8080",
            ("http://localhost", "http://localhost:8080"),
        ),
        (["http://a:443", "https://[::1]:80"], ("http://a:443", "https://[::1]:80")),
        ("app://obsidian.md", ("app://obsidian.md",)),
        ("*", ("*",)),
        ("none", ()),
        (["off"], ()),
    ],
    ids=lambda one: str(one) if isinstance(one, str) else "",
)
def test_origins_are_read_as_browsers_send_them(resolved, given, origins):
    assert resolved({"allow_origin": given}).allow_origin == origins


@pytest.mark.parametrize(
    "given",
    [
        "app.example.org",
        "https://a.example/",
        "https://a.example/x",
        "null",
        "https://me@a",
        "https:",
    ],
)
def test_what_no_browser_sends_as_an_origin_is_refused(resolved, given):
    with pytest.raises(ConfigError) as caught:
        resolved({"allow_origin": ["https://b.example", given]})
    message = caught.value.message
    assert f"{given!r}, which is no origin" in message and "--allow-origin" in message
    assert "https://app.example.org or http://localhost:3000, or *" in message


def test_a_file_may_list_origins_and_a_flag_takes_them_back(resolved):
    file = 'allow_origin = ["https://a.example", "https://b.example"]\n'
    assert resolved(file=file).allow_origin == ("https://a.example", "https://b.example")
    env = {"LEEWAY_ALLOW_ORIGIN": "https://c.example,https://d.example"}
    assert resolved(env=env, file=file).allow_origin == ("https://c.example", "https://d.example")
    assert resolved({"allow_origin": ["none"]}, env=env, file=file).allow_origin == ()


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("LLM.example.org", ("llm.example.org",)),
        (["a", "*.b.c"], ("a", "*.b.c")),
        ("[::1], fe80::1, 10.0.0.1", ("::1", "fe80::1", "10.0.0.1")),
        ("*", ("*",)),
        (["none"], None),
        ("off", None),
    ],
    ids=str,
)
def test_names_of_hosts_are_read_as_their_header_has_them(resolved, given, names):
    assert resolved({"allowed_hosts": given}).allowed_hosts == names


@pytest.mark.parametrize(
    "given", ["http://a", "a:8000", "a/b", "*a", "a.*", "*.", "a b", "::1:80:x", "a..b", "[::1]:80"]
)
def test_what_no_host_is_called_is_refused(resolved, given):
    with pytest.raises(ConfigError, match="which is no name of a host; write it") as at:
        resolved({"allowed_hosts": ["b", given]})
    assert "--allowed-hosts" in at.value.message


def test_hosts_given_by_a_file_are_taken_back_by_a_flag(resolved):
    file = 'allowed_hosts = ["a.example", "b.example"]\n'
    assert resolved(file=file).allowed_hosts == ("a.example", "b.example")
    assert resolved({"allowed_hosts": ["none"]}, file=file).allowed_hosts is None
    assert resolved().allowed_hosts is None


@pytest.mark.parametrize(
    ("layers", "parts"),
    [
        ({"flags": CERT}, ["tls_cert '/c.pem' (from --tls-cert)", "give --tls-key as well"]),
        ({"flags": KEY}, ["tls_key '/k.pem' (from --tls-key)", "give --tls-cert as well"]),
        ({"env": {"LEEWAY_TLS_CERT": "/c.pem"}}, ["(from LEEWAY_TLS_CERT)", "--tls-key"]),
        ({"file": 'tls_key = "/k.pem"\n'}, ["leeway.toml: tls_key)", "--tls-cert"]),
        ({"flags": {"tls_key": "off"}, "env": {"LEEWAY_TLS_CERT": "/c.pem", "LEEWAY_TLS_KEY": "k"}},
         ["tls_cert '/c.pem'", "--tls-key"]),
    ],
    ids=["cert", "key", "variable", "file", "key-taken-back"],
)  # fmt: skip
def test_a_certificate_goes_with_its_key_only(resolved, layers, parts):
    with pytest.raises(ConfigError) as caught:
        resolved(**layers)
    assert all(part in caught.value.message for part in parts), caught.value.message


def test_certificate_and_key_may_come_from_two_layers(resolved):
    server = resolved({"tls_key": "/k.pem"}, file='tls_cert = "~/c.pem"\n')
    assert str(server.tls_key) == "/k.pem" and server.tls_cert.is_absolute()
    assert server.tls_cert.name == "c.pem" and "~" not in str(server.tls_cert)


def test_sizes_and_times(resolved):
    assert resolved().max_body_bytes == MAX_BODY_BYTES == 8_388_608
    server = resolved({"max_body_bytes": "1MiB", "drain_timeout_s": "0"})
    assert (server.max_body_bytes, server.drain_timeout_s) == (1_048_576, 0.0)
    with pytest.raises(ConfigError, match=r"max_body_bytes '8 MoB' .*like 512MiB"):
        resolved({"max_body_bytes": "8 MoB"})
    with pytest.raises(ConfigError, match=r"log_format 'jsno' .*not one of text, json.*'json'"):
        resolved({"log_format": "jsno"})
