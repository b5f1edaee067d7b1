"""Requests made from the server's own OpenAPI document, right and wrong, over a table.

Whatever is sent, the status and the shape of the body are documented ones, and never a failure of
the server. Examples are the same in every run.
"""

import hypothesis
import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.core import NOT_SET
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.server.conftest import fuzzed_table

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
MESSAGES = [{"role": "user", "content": "ab"}]
LEAST = {
    "/v1/chat/completions": {"messages": MESSAGES},
    "/v1/completions": {"prompt": "ab"},
    "/v1/responses": {"input": "ab"},
    "/v1/messages": {"messages": MESSAGES, "max_tokens": 5},
    "/v1/messages/count_tokens": {"messages": MESSAGES},
    "/tokenize": {"prompt": "ab"},
    "/detokenize": {"tokens": [0, 1]},
}
READ = (
    "/v1/models", "/v1/models/{id}", "/", "/page/{name}", "/laws", "/health", "/health/live",
    "/metrics", "/version", "/openapi.json",
)  # fmt: skip


@pytest.fixture(scope="module")
def table():
    with fuzzed_table(context_len=40) as client:
        yield client


@pytest.fixture(scope="module")
def document(table):
    return table.get("/openapi.json").json()


def send(client, case, change=None):
    """Send a case, its body changed; return the answer once it is found to be as documented."""
    body, options = case.body, {}
    if isinstance(body, dict) and change is not None:
        body = change(body)
    if body is not NOT_SET:
        raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
        options = {"content": raw, "headers": {"Content-Type": "application/json"}}
    answer = client.request(case.method, case.formatted_path, **options)
    case.validate_response(answer, checks=CHECKS)
    return answer.status_code


def fuzz(client, operation, mode, num_examples, change=None):
    """Send so many cases of one operation; return the statuses that came."""
    statuses = set()

    @hypothesis.settings(
        max_examples=num_examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(operation.as_strategy(generation_mode=mode), st.booleans())
    def check(case, is_changed):
        statuses.add(send(client, case, change if is_changed else None))

    check()
    return statuses


@pytest.mark.parametrize("path", LEAST)
def test_t20_whatever_the_document_allows_is_answered_as_it_says(table, document, path):
    """Half of the bodies have what is required in a form that can be answered."""
    operation = schemathesis.openapi.from_dict(document)[path]["POST"]

    def answerable(body):
        return {**body, **LEAST[path], "model": None}

    mode = schemathesis.GenerationMode.POSITIVE
    assert {200, 400} <= fuzz(table, operation, mode, 30, answerable)


@pytest.mark.parametrize("path", LEAST)
def test_t20_whatever_the_document_forbids_is_refused_as_it_says(table, document, path):
    operation = schemathesis.openapi.from_dict(document)[path]["POST"]
    statuses = fuzz(table, operation, schemathesis.GenerationMode.NEGATIVE, 20)
    assert 400 in statuses and statuses <= {400, 403, 404, 415}


@pytest.mark.parametrize("path", READ)
def test_what_is_read_is_as_documented(table, document, path):
    operation = schemathesis.openapi.from_dict(document)[path]["GET"]
    statuses = fuzz(table, operation, schemathesis.GenerationMode.POSITIVE, 8)
    assert statuses == ({404} if "{" in path else {200})


@pytest.mark.parametrize("fault", ["status", "shape"])
def test_what_is_not_documented_is_found(table, document, fault):
    """A document that is wrong in one place: the checks see it."""
    schemas = document["components"]["schemas"]
    path = document["paths"]["/v1/completions"]["post"]
    if fault == "status":
        path = {**path, "responses": {**path["responses"]}}
        del path["responses"]["400"]
    else:
        schemas = {**schemas, "Error": {**schemas["Error"], "required": ["mistake"]}}
    wrong = {
        **document,
        "paths": {"/v1/completions": {"post": path}},
        "components": {**document["components"], "schemas": schemas},
    }
    operation = schemathesis.openapi.from_dict(wrong)["/v1/completions"]["POST"]
    case = operation.Case(body={"prompt": "ab", "temperature": -1}, media_type="application/json")
    with pytest.raises(FailureGroup):
        send(table, case)
