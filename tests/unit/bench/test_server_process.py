"""Servers that are started: waited for, stopped, and what is said when they do not come up."""

import re
import subprocess
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


OWNER = """
import sys
from leeway.bench.server_process import running
with running("it", [sys.executable, "-c", sys.argv[1], sys.argv[2]], sys.argv[3]):
    print("ready", flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
@pytest.mark.parametrize("end", ["kill", "terminate"])
def test_it_ends_with_the_process_that_started_it(end):
    port = free_port()
    url = f"http://127.0.0.1:{port}/v1"
    command = [sys.executable, "-c", OWNER, SERVER, str(port), url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"ready\n"
        get_json(url + "/models", 5)
        getattr(owner, end)()
    with pytest.raises(OSError, match=r"refused|reset"):
        for _ in range(5000):  # the system tells the server soon, not at once
            get_json(url + "/models", 5)


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
