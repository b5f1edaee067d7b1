"""One line a request, whatever becomes of it."""

import asyncio

import pytest

from leeway.server.access_log import AccessLogMiddleware

START = {"type": "http.response.start", "status": 200, "headers": []}
SCOPE = {
    "type": "http",
    "path": "/v1/completions",
    "method": "POST",
    "http_version": "1.1",
    "client": ("10.0.0.7", 1234),
    "state": {"request_id": "r1"},
}


def body(text, more=False):
    return {"type": "http.response.body", "body": text, "more_body": more}


def logged(caplog, sends, error=None, **scope):
    """Run an application that sends these messages; return the fields of each line."""

    async def app(scope, receive, send):
        for message in sends:
            await send(message)
        if error is not None:
            raise error

    sent = []

    async def send(message):
        sent.append(message)

    async def run():
        await AccessLogMiddleware(app)(SCOPE | scope, None, send)

    with caplog.at_level("INFO", "leeway"):
        if error is None:
            asyncio.run(run())
        else:
            with pytest.raises(type(error)):
                asyncio.run(run())
    assert sent == list(sends)
    return [record.fields for record in caplog.records]


@pytest.mark.parametrize(
    ("sends", "error", "status", "is_whole"),
    [
        ([START, body(b"a")], None, 200, True),
        ([START, body(b"a", True), body(b"")], None, 200, True),
        ([START, body(b"a", True)], None, 200, False),
        ([], None, 499, False),
        ([], ZeroDivisionError(), 500, True),
        ([START, body(b"a", True)], ZeroDivisionError(), 200, False),
        ([], asyncio.CancelledError(), 499, False),
    ],
    ids=["whole", "stream", "left", "left-early", "defect", "defect-late", "cancelled"],
)
def test_how_a_request_ended(caplog, sends, error, status, is_whole):
    [line] = logged(caplog, sends, error)
    assert (line["status"], line["is_whole"]) == (status, is_whole)
    assert (line["request_id"], line["client"]) == ("r1", "10.0.0.7:1234")
    assert caplog.records[0].message.endswith("request r1")


@pytest.mark.parametrize("path", ["/health", "/health/live", "/metrics"])
def test_probes_are_left_out(caplog, path):
    assert logged(caplog, [START, body(b"")], path=path) == []


def test_a_path_stays_on_its_line(caplog):
    [line] = logged(caplog, [START, body(b"")], path="/v1/a\n2026 INFO b\u2028é", client=None)
    assert line["path"] == "/v1/a%0A2026%20INFO%20b%E2%80%A8%C3%A9" and line["client"] == "-"
    assert "\n" not in caplog.records[0].message


def test_other_kinds_pass(caplog):
    assert logged(caplog, [], type="lifespan") == []
