"""Run: one process that loads a model, serves it, and drains when told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

import uvicorn
from starlette.applications import Starlette
from uvicorn.server import HANDLED_SIGNALS

from leeway.core.config import ServerConfig
from leeway.engine.load import OnProgress, load_engine
from leeway.engine.service import EngineService
from leeway.server.app import create_app
from leeway.server.listen import listen, url_of
from leeway.server.log_lines import log_to_stderr
from leeway.server.service_protocol import Service
from leeway.server.tls import check_tls

FLUSH_TIMEOUT_S = 10
_POLL_S = 0.05

log = logging.getLogger("leeway")


def run(
    config: ServerConfig,
    on_progress: OnProgress | None = None,
    on_ready: Callable[[], None] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM; returns when running answers are finished.

    Standard output gets the URL, standard error the log.

    Args:
        config: what to serve, and where.
        on_progress: told of downloads, on the engine's thread.
        on_ready: told once when the model is loaded, before anything is printed.

    Raises:
        ConfigError: the address cannot be had, a certificate or key cannot be used, or the
            configuration is wrong; all before the model is loaded.
        LeewayError: the model cannot be loaded, or the engine failed while serving.
    """
    log_to_stderr(config.log_format)
    check_tls(config)
    service = EngineService(
        lambda: load_engine(config.engine, on_progress),
        max_num_waiting=config.max_num_waiting,
        request_timeout_s=config.request_timeout_s,
    )
    app = create_app(service, config)
    with contextlib.closing(listen(config.host, config.port)) as listener:
        asyncio.run(serve(app, service, listener, config, on_ready))


async def serve(
    app: Starlette,
    service: Service,
    listener: socket.socket,
    config: ServerConfig,
    on_ready: Callable[[], None] | None = None,
) -> None:
    """Start the service and serve the application until told to stop.

    Raises:
        LeewayError: the service failed.
    """
    server = _Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=FLUSH_TIMEOUT_S,
            ssl_certfile=config.tls_cert,
            ssl_keyfile=config.tls_key,
        )
    )
    service.start()

    def announce() -> None:
        if on_ready is not None:
            on_ready()
        scheme = "http" if config.tls_cert is None else "https"
        _announce(service, url_of(listener, config.host, scheme), config)

    watcher = asyncio.create_task(_watch(service, server, announce, config.drain_timeout_s))
    try:
        await server.serve(sockets=[listener])
    finally:
        watcher.cancel()
        # A model that is still loading cannot be interrupted; its thread ends with the process.
        if service.state != "loading":
            await asyncio.to_thread(service.stop, 0.0)
    if service.error is not None:
        raise service.error


class _Server(uvicorn.Server):
    """Drains on a signal, listening meanwhile; uvicorn's own raises the signal anew at the end."""

    is_draining = False

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Drain on a signal; a second one does not wait for running answers."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        previous = {one: signal.signal(one, self.handle_exit) for one in HANDLED_SIGNALS}
        try:
            yield
        finally:
            for one, handler in previous.items():
                signal.signal(one, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to drain; at a second signal stop at once."""
        if self.is_draining:
            self.force_exit = self.should_exit = True
        self.is_draining = True


async def _watch(
    service: Service, server: _Server, announce: Callable[[], None], drain_timeout_s: float
) -> None:
    """Announce the server when it is ready; stop it when it has drained or its engine fails.

    While it drains it still listens, so that /health can say so and new requests get a 503. What is
    not finished in time is cancelled, so that its client is told.
    """
    while service.state == "loading" and not server.is_draining:
        await asyncio.sleep(_POLL_S)
    if service.state == "ready":
        announce()
    while service.state == "ready" and not server.is_draining:
        await asyncio.sleep(_POLL_S)
    service.drain()
    begun = time.monotonic()
    while (
        service.state == "draining"
        and service.num_open > 0
        and time.monotonic() - begun < drain_timeout_s
    ):
        await asyncio.sleep(_POLL_S)
    if service.state == "draining" and service.num_open > 0:
        await asyncio.to_thread(service.stop, 0.0)
    server.should_exit = True


def _announce(service: Service, url: str, config: ServerConfig) -> None:
    engine = service.engine
    model, law = engine.parts.model_name, engine.law
    options = ", ".join(f"{name} {value}" for name, value in law.options.items())
    shown = f"{law.info.name} ({options})" if options else law.info.name
    origin = config.engine.origin("acceptance")
    log.info("serving %s at %s", model, url)
    log.info("law %s (from %s), guarantee %s", shown, origin, law.info.guarantee)
    log.info(
        "drafter %s, up to %d draft tokens a step",
        engine.parts.drafter.name,
        config.engine.num_speculative_tokens,
    )
    has_key = (config.api_key or config.api_key_file) is not None
    log.info("try:\n%s", curl_line(url, model, has_key=has_key))
    sys.stdout.write(url + "\n")
    sys.stdout.flush()


def curl_line(url: str, model: str, *, has_key: bool) -> str:
    """Return a command that asks the server something."""
    body = {"model": model, "messages": [{"role": "user", "content": "Why is the sky blue?"}]}
    key = ' -H "Authorization: Bearer $LEEWAY_API_KEY"' if has_key else ""
    return (
        f"curl {url}/v1/chat/completions -H 'Content-Type: application/json'{key} "
        f"-d '{json.dumps({**body, 'max_tokens': 100})}'"
    )
