"""Starts the server on this machine, and stops it without losing a request."""

import asyncio
import logging
import signal
import socket
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import Any

import uvicorn
from fastapi import FastAPI

from ..errors import InputError, counted, listed, reason
from ..runtime.signals import StopSignals
from .accounts import Accounts, read_accounts
from .api import make_app
from .arguments import DRAIN_SECONDS, ServerArguments, log_requests
from .connections import Connection
from .detection import identifier
from .glossaries import Glossaries
from .service import Service
from .workers import Workers

# For connections that wait for their next request: longer than clients and proxies keep theirs, which would otherwise
# send a request just when the server closes it.
KEEP_ALIVE_SECONDS = 120
# Threads that read large requests leave the others their turn after this time.
SWITCH_SECONDS = 0.001


def launch(arguments: ServerArguments, host: str, port: int) -> None:
    """Serve until Ctrl+C or SIGTERM; SIGHUP opens models again whose files have changed.

    Raises:
        InputError: a model cannot be served, or can no longer be, or the port is not free.
    """
    arguments.check()
    accounts, glossaries = Accounts(read_accounts(arguments.keys)), Glossaries(arguments.glossaries)
    check_port(host, port)
    log_requests(arguments.log_file)
    print(f"Opening {counted(len(arguments.models), 'model')}; this takes some seconds.", flush=True)
    workers = Workers(arguments)
    with event_loop() as loop:
        try:
            opening = asyncio.run_coroutine_threadsafe(workers.open(), loop)
            identifier()  # or else it would keep the first clients waiting
            catalog = opening.result()
            app = make_app(catalog, workers.handles, accounts, arguments.limits, glossaries)
            service: Service = app.state.service
            url = f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}"

            def reload() -> str:
                known = read_accounts(arguments.keys)
                catalog, changed = run(workers.reload(), loop)
                service.use(catalog, known)
                return reload_report(changed)

            with StopSignals() as signals, listening(app, host, port, loop):
                print(f"Serving at {url}. Its API: {url}/docs. Ctrl+C stops the server.", flush=True)
                try:
                    wait(signals, reload, lambda: workers.failure)
                finally:
                    drain_report(service.drain(DRAIN_SECONDS))
            service.reader.close()
        finally:
            run(workers.close(), loop)


def wait(
    signals: StopSignals, reload: Callable[[], str], failure: Callable[[], InputError | None] = lambda: None
) -> None:
    """Wait until the server is to stop; at SIGHUP, reload, and print what that says it did.

    Raises:
        InputError: what `failure` returns.
    """
    wanted = Event()
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, lambda *_: wanted.set())
    while not signals.received:
        if (error := failure()) is not None:
            raise error
        if wanted.wait(0.5):
            wanted.clear()
            started = time.monotonic()
            try:
                done = reload()
            except (InputError, RuntimeError) as error:
                print(f"Nothing was reloaded: {reason(error)}", file=sys.stderr)
                continue
            print(f"{done}, in {time.monotonic() - started:.1f} s.", flush=True)
    print("Stopping: requests under way are finished.", flush=True)


def reload_report(changed: Sequence[str]) -> str:
    """What a reload has done, in words."""
    return f"Keys read again, {f'{listed(changed)} opened again' if changed else 'no model had changed'}"


def drain_report(left: int) -> None:
    """Tell of requests that were not finished."""
    if left:
        print(f"{left} requests were not finished after {DRAIN_SECONDS} seconds.", file=sys.stderr)


def run(work: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop) -> Any:
    """The result of some work in an event loop of another thread."""
    return asyncio.run_coroutine_threadsafe(work, loop).result()


@contextmanager
def event_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop in a thread of its own, which runs while the block does."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        from asyncio import new_event_loop
    loop = new_event_loop()
    thread = Thread(target=loop.run_forever, name="server", daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def listening(app: FastAPI, host: str, port: int, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Answer requests in an event loop of another thread while the block runs."""
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # clients that send no HTTP are no news
    sys.setswitchinterval(SWITCH_SECONDS)
    server = uvicorn.Server(uvicorn.Config(
        app, host, port, http=Connection, ws="none", lifespan="off", log_config=None, access_log=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS, timeout_graceful_shutdown=1,
    ))  # fmt: skip
    _allow_connections()

    async def serve() -> None:
        with suppress(SystemExit):  # how uvicorn says that it cannot listen
            await server.serve()

    done = asyncio.run_coroutine_threadsafe(serve(), loop)
    try:
        while not server.started:
            if done.done():
                raise InputError(f"Nothing can be served on {host}, port {port}. Choose another --port.")
            time.sleep(0.02)
        yield
    finally:
        server.should_exit = True
        done.result()


def _allow_connections() -> None:
    """Raise the number of connections that may be open at once to what the system grants."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def check_port(host: str, port: int) -> None:
    """Raise an `InputError` if nothing can listen there."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise InputError(
                f"Nothing can be served on {host}, port {port}: {reason(error)}. Choose another --port."
            ) from None
