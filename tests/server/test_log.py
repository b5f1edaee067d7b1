"""The log of a real process: one line a request, as text or JSON, and nothing of what was said."""

import json
import signal

import httpx2
import pytest

from tests.server.conftest import CHAT, client_of, served_table

SECRET = "abcdeabcdeabcde"
BODY = {"prompt": SECRET, "max_tokens": 12, "seed": 1, "temperature": 0.9}
LOSSY = {**BODY, "speculative": {"law": "typical", "delta": 0.3}}
PROBES = ("/health", "/health/live", "/metrics")


def log_of(*settings):
    """Serve, ask in several ways, stop; return the log and what was answered by request id."""
    said = {}
    with served_table("allow_laws=all", *settings) as (started, url):
        with httpx2.Client(base_url=url, timeout=30) as http:

            def ask(name, path="/v1/completions", body=BODY, **more):
                headers = {"X-Request-Id": name}
                said[name] = http.post(path, json=body, headers=headers, **more).status_code

            ask("exact")
            ask("lossy", body=LOSSY)
            ask("chat", "/v1/chat/completions", {"messages": [{"role": "user", "content": SECRET}],
                                                 "max_tokens": 3})  # fmt: skip
            ask("wrong", body={**BODY, "temperature": SECRET, SECRET: SECRET})
            ask("unserved", body={**BODY, "model": SECRET})
            ask("query", params={"api_key": "sesame"})
            ask("break", "/v1/x%0a2026-01-01 INFO forged", {})
            for path in PROBES:
                assert http.get(path).status_code == 200
            leaving = {**BODY, "max_tokens": 8000, "stream": True}
            with http.stream(
                "POST", "/v1/completions", json=leaving, headers={"X-Request-Id": "left"}
            ) as response:
                next(response.iter_lines())
        started.send_signal(signal.SIGTERM)
        log = started.stderr.read()
        assert started.wait(20) == 0
    return log, said


def test_json_lines_say_how_each_request_went():
    log, said = log_of("log_format=json")
    lines = [json.loads(line) for line in log.splitlines()]
    assert {line["level"] for line in lines} == {"INFO"}
    assert all(line["time"].endswith("+00:00") and line["message"] for line in lines)
    served = {line["request_id"]: line for line in lines if "request_id" in line}
    assert {name: served[name]["status"] for name in said} == said
    assert said == {"exact": 200, "lossy": 200, "chat": 200, "wrong": 400, "unserved": 404,
                    "query": 200, "break": 404}  # fmt: skip
    assert set(served) == {*said, "left"}
    for name, line in served.items():
        assert line["method"] == "POST" and line["duration_s"] >= 0
        assert line["is_whole"] is (name != "left")
        assert line["client"].startswith("127.0.0.1:") and line["http_version"] == "1.1"
    assert served["left"]["status"] == 200 and served["query"]["path"] == "/v1/completions"
    [lossy] = [line for line in lines if "receipt" in line]
    assert lossy["message"].startswith("[typical-accept] NOT distribution-exact; ")
    receipt = lossy["receipt"]
    assert (receipt["law"], receipt["guarantee"], receipt["output_tokens"]) == (
        "typical",
        "none",
        12,
    )
    assert lossy["request"] in lossy["message"]


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_no_line_holds_what_was_asked_or_answered_or_a_query(log_format):
    log, _ = log_of(f"log_format={log_format}")
    assert "request lossy" in log and "request left" in log
    assert SECRET not in log and "sesame" not in log and "Traceback" not in log
    assert not any(line.startswith("2026-01-01") for line in log.splitlines())
    for path in PROBES:
        assert f"GET {path} " not in log


def test_lines_for_people():
    log, _ = log_of()
    [line] = [line for line in log.splitlines() if line.endswith("request wrong")]
    assert " INFO 127.0.0.1:" in line and '"POST /v1/completions HTTP/1.1" 400 in 0.' in line
    [left] = [line for line in log.splitlines() if line.endswith("request left")]
    assert " s, the client left, request left" in left


def test_a_defect_of_ours_is_logged_with_its_cause_as_one_json_line(service, caplog):
    def broken(prompt):
        raise ZeroDivisionError("the cause")

    service.reply = broken
    with caplog.at_level("INFO", "leeway"):
        response = client_of(service).post("/v1/chat/completions", json=CHAT)
    [access] = [one.fields for one in caplog.records if "fields" in vars(one)]
    assert response.status_code == access["status"] == 500 and access["is_whole"]
    assert access["request_id"] == response.headers["x-request-id"]
