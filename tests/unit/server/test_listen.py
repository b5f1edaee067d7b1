"""The socket: what cannot be had is one clear error that names the flag."""

import socket

import pytest

from leeway.core.errors import ConfigError
from leeway.server.listen import listen, url_of


def test_port_zero_takes_a_free_one_and_the_url_names_it():
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        assert url_of(listener, "127.0.0.1") == f"http://127.0.0.1:{port}"
        assert url_of(listener, "0.0.0.0") == f"http://127.0.0.1:{port}"
        assert url_of(listener, "::1") == f"http://[::1]:{port}"
        assert url_of(listener, "::", "https") == f"https://[::1]:{port}"
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            pass


def test_a_taken_port_is_named_with_what_to_do():
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(
            ConfigError, match=f"port {port} on 127.0.0.1 is taken.*--port"
        ) as caught:
            listen("127.0.0.1", port)
        assert (caught.value.exit_code, caught.value.param) == (2, "port")


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a..b", "x" * 70, "192.0.2.7"])
def test_a_host_of_elsewhere_is_named(host):
    with pytest.raises(ConfigError, match=f"{host}.*--host") as caught:
        listen(host, 0)
    assert caught.value.param == "host"
