"""Servers that are started: waited for, stopped, and what is said when they do not come up."""

import re
import sys

import pytest

from leeway.bench.http_stream import get_json
from leeway.bench.server_process import free_port, running
from leeway.core.errors import ConfigError

SERVER = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"data": []}')
    def log_message(self, *_):
        pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def test_a_server_runs_for_the_time_of_the_with():
    port = free_port()
    url = f"http://127.0.0.1:{port}/v1"
    with running("it", [sys.executable, "-c", SERVER, str(port)], url) as process:
        assert get_json(url + "/models", 5) == {"data": []}
        assert process.poll() is None
    assert process.poll() is not None
    with pytest.raises(OSError, match="refused"):
        get_json(url + "/models", 5)


def test_it_is_stopped_when_what_is_measured_fails():
    port = free_port()
    command = [sys.executable, "-c", SERVER, str(port)]
    started = []
    with pytest.raises(ZeroDivisionError):  # noqa: SIM117
        with running("it", command, f"http://127.0.0.1:{port}/v1") as process:
            started.append(process)
            raise ZeroDivisionError
    assert started[0].poll() is not None


@pytest.mark.parametrize(
    ("command", "timeout_s", "says"),
    [
        (["/no/such/program"], 5.0, "'/no/such/program' cannot be started (No such file"),
        ([sys.executable, "-c", "import sys; sys.exit('no model')"], 60.0, "exit code 1.*no model"),
        ([sys.executable, "-c", "input()"], 60.0, "ended with exit code 1"),
        (["sleep", "60"], 0.1, r"was not ready within 0\.1 s"),
    ],
    ids=["missing", "ends", "no-input", "late"],
)
def test_what_does_not_come_up_says_why(command, timeout_s, says):
    url = f"http://127.0.0.1:{free_port()}/v1"
    started = running("it", command, url, ready_timeout_s=timeout_s)
    with pytest.raises(ConfigError) as caught, started:
        pass
    assert re.search(says.replace("(", r"\("), caught.value.message, re.DOTALL)
