"""Applications around a scripted service, and a real server on a free loopback port."""

import asyncio
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import msgspec
import pytest
import uvicorn
from starlette.testclient import TestClient

from leeway.backends.tabular import random_table
from leeway.core.config import EngineConfig, ServerConfig
from leeway.engine.service import EngineService
from leeway.server.app import KEEP_ALIVE_S, create_app
from leeway.server.listen import listen, url_of
from tests.server.fake_service import FakeService
from tests.support.tabular_engine import make_engine

CHAT = {"model": "scripted-model", "messages": [{"role": "user", "content": "Hi"}]}


@pytest.fixture
def service():
    return FakeService()


@pytest.fixture
def client(service):
    return client_of(service)


def client_of(service, *, engine=None, keep_alive_s=KEEP_ALIVE_S, **settings):
    """Return a client of an application around the service; extra settings go to ServerConfig."""
    config = ServerConfig(engine=engine or service.engine.config, **settings)
    app = create_app(service, config, keep_alive_s=keep_alive_s)
    return local_client(app, raise_server_exceptions=False)


def local_client(app, **options):
    """Return a client under a name that a server of this machine answers to."""
    return TestClient(app, base_url="http://localhost", **options)


@contextmanager
def served_table(*words):
    """Serve a table from a process of its own; yield it and its URL, the first line it prints.

    `words` are those of `tests.server.serve_table`.
    """
    command = [sys.executable, "-m", "tests.server.serve_table", *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as started:
        try:
            yield started, started.stdout.readline().strip()
        finally:
            if started.poll() is None:
                started.kill()


@contextmanager
def live_server(service, *, engine=None, **settings):
    """Serve on a free port, in a thread; yield the URL."""
    config = ServerConfig(engine=engine or EngineConfig(), port=0, **settings)
    app = create_app(service, config, keep_alive_s=0.05)
    listener = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
    thread.start()
    try:
        yield url_of(listener, "127.0.0.1")
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()
        assert not thread.is_alive()


@contextmanager
def table_client(load):
    """Serve the engine that `load` makes, in this process; every law may be chosen."""
    service = EngineService(load)
    service.start()
    app = create_app(service, ServerConfig(allow_laws=("all",)))
    with local_client(app, raise_server_exceptions=False) as client:
        wait_until_ready(service)
        yield client
        service.stop()


@contextmanager
def fuzzed_table(context_len):
    """Serve a table that drafts from another; nothing of it may be left at the end."""
    with table_client(
        lambda: make_engine(
            random_table(5, 1, seed=1),
            drafter="draft_model",
            draft_table=random_table(5, 1, seed=2),
            eos_token_id=4,
            context_len=context_len,
            capacity_tokens=1200,
        )
    ) as client:
        yield client
        engine = client.app.state.server.service.engine
        assert engine.parts.backend.num_open() == 0 and not engine.has_work


def wait_until_ready(service):
    """Wait until a service has loaded its engine; fail with its own error."""
    while service.state == "loading":
        time.sleep(0.001)
    if service.error is not None:
        raise service.error


def events(text):
    """Return (name, data) of each named server-sent event, comments left out."""
    found = []
    for event in text.split("\n\n"):
        if event and not event.startswith(":"):
            name, data = event.split("\n", 1)
            found.append(
                (name.removeprefix("event: "), msgspec.json.decode(data.removeprefix("data: ")))
            )
    return found


def frames(text):
    """Return the data of each server-sent event, comments left out."""
    events = [event for event in text.split("\n\n") if event]
    return [event.removeprefix("data: ") for event in events if not event.startswith(":")]
