"""Starts the server on this machine, and stops it without losing a request."""

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from threading import Event, Thread
from typing import Any

import ray
import uvicorn
from fastapi import FastAPI
from ray import serve
from ray.serve.config import ProxyLocation
from ray.serve.handle import DeploymentHandle

from ..data.tokenizers.tokenizer import load_tokenizer
from ..errors import InputError, counted, listed, reason
from ..runtime.signals import StopSignals
from ..text.source_warnings import keep_warning
from ..translator.translator_settings import content_digest
from .accounts import Accounts
from .api import make_app
from .application import DRAIN_SECONDS, NAME, ServerArguments, log_requests, read_arguments, translators
from .catalog import Catalog
from .connections import Connection
from .glossaries import Glossaries
from .service import Service

HOST, PORT = "127.0.0.1", 5000
# The store of objects that pass between processes: texts are small.
STORE_BYTES = 128 * 1024 * 1024
# For connections that wait for their next request: longer than clients and proxies keep theirs, which would otherwise
# send a request just when the server closes it.
KEEP_ALIVE_SECONDS = 120
# Threads that read large requests leave the others their turn after this time.
SWITCH_SECONDS = 0.001
RELOAD_SECONDS = 600
# Ray gives up after half a minute each, which is too short on a busy machine.
RAY_STARTS = 4


def launch(arguments: ServerArguments, host: str, port: int) -> None:
    """Serve until Ctrl+C or SIGTERM; SIGHUP opens models again whose files have changed.

    Raises:
        InputError: a model cannot be served, or the port is not free.
    """
    # In this order, since Ray sets a handler of its own when it starts.
    with served(arguments, host, port) as server, StopSignals() as signals:
        print(f"Serving at {server.url}. Its API: {server.url}/docs. Ctrl+C stops the server.", flush=True)
        wait(signals, server.reload)
        service = server.service
        if left := service.drain(DRAIN_SECONDS):
            print(f"{left} requests were not finished after {DRAIN_SECONDS} seconds.", file=sys.stderr)


def wait(signals: StopSignals, reload: Callable[[], str]) -> None:
    """Wait until the server is to stop; at SIGHUP, reload, and print what that says it did."""
    wanted = Event()
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, lambda *_: wanted.set())
    while not signals.received:
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


class Server:
    """A running server.

    Attributes:
        url: its address.
        service: what all routes share.
    """

    def __init__(self, arguments: ServerArguments, url: str, service: Service, loop: asyncio.AbstractEventLoop):
        self.arguments, self.url, self.service, self._loop = arguments, url, service, loop

    def reload(self) -> str:
        """Open models again whose files have changed, read the keys again, and say so.

        Raises:
            InputError: a model cannot be opened, or the file of keys cannot be used; what was open translates on.
        """
        catalog, accounts = read_arguments(self.arguments)
        work = reload_models(self.service.handles, catalog, self.arguments.replicas)
        changed = asyncio.run_coroutine_threadsafe(work, self._loop).result()
        self.service.use(catalog, accounts)
        return reload_report(changed)


async def reload_models(handles: Mapping[str, Any], catalog: Catalog, replicas: int) -> list[str]:
    """Have all replicas open the models again whose files have changed; the names of these models.

    Raises:
        InputError: a model cannot be opened; its replicas go on with the old one.
    """
    changed = []
    for name, path in catalog.models.items():
        version, seen = await asyncio.to_thread(content_digest, path), set()
        for _ in range(replicas * 50):  # which of them answers is up to Ray
            try:
                replica, has_changed = await asyncio.wait_for(handles[name].reload.remote(version), RELOAD_SECONDS)
            except Exception as error:
                why = reason(getattr(error, "cause", None) or error)
                raise InputError(why if path in why else f"{path}: {why}") from None
            seen.add(replica)
            changed += [name] * (has_changed and name not in changed)
            if len(seen) >= replicas:
                break
    return changed


def reload_report(changed: Sequence[str]) -> str:
    """What a reload has done, in words."""
    return f"Keys read again, {f'{listed(changed)} opened again' if changed else 'no model had changed'}"


@contextmanager
def served(arguments: ServerArguments, host: str = HOST, port: int = PORT) -> Iterator[Server]:
    """Serve while the block runs."""
    catalog, accounts = read_arguments(arguments)
    for name, path in catalog.models.items() if arguments.keep else ():
        if warning := keep_warning(load_tokenizer(path), arguments.keep):
            print(f"{name}: {warning}", file=sys.stderr, flush=True)
    check_port(host, port)
    glossaries = Glossaries(arguments.glossaries)
    log_requests(arguments.log_file)
    print(f"Opening {counted(len(arguments.models), 'model')}; this takes half a minute or more.", flush=True)
    with connected(arguments):
        serve.start(proxy_location=ProxyLocation.Disabled)
        handles = _open_models(arguments, catalog)
        app = make_app(catalog, handles, Accounts(accounts), arguments.limits, glossaries)
        service: Service = app.state.service
        service.detector.rank("a")  # loads it, which would keep the first clients waiting
        url = f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}"
        with listening(app, host, port) as loop:
            try:
                yield Server(arguments, url, service, loop)
            finally:
                service.reader.close()
                logging.getLogger("ray.serve").setLevel(logging.ERROR)
                with _without_output(), suppress(Exception):
                    serve.shutdown()


def _open_models(arguments: ServerArguments, catalog: Catalog) -> dict[str, DeploymentHandle]:
    """Start what translates; its handles by name."""
    deployments = translators(arguments, catalog)
    targets = [serve.RunTarget(deployment, name, route_prefix=None) for name, deployment in deployments.items()]
    try:
        return dict(zip(deployments, serve.run_many(targets)))
    except RuntimeError as error:
        raise InputError(f"The models could not be opened: {reason(error)}") from None


@contextmanager
def listening(app: FastAPI, host: str, port: int) -> Iterator[asyncio.AbstractEventLoop]:
    """Answer requests in a thread of its own while the block runs, and yield its event loop."""
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # clients that send no HTTP are no news
    sys.setswitchinterval(SWITCH_SECONDS)
    server = uvicorn.Server(uvicorn.Config(
        app, host, port, http=Connection, ws="none", lifespan="off", log_config=None, access_log=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS, timeout_graceful_shutdown=1,
    ))  # fmt: skip
    _allow_connections()
    thread = Thread(target=server.run, name="server", daemon=True)
    thread.start()
    try:
        while not server.started:
            if not thread.is_alive():
                raise InputError(f"Nothing can be served on {host}, port {port}. Choose another --port.")
            time.sleep(0.02)
        yield server.servers[0].get_loop()
    finally:
        server.should_exit = True
        thread.join()


def _allow_connections() -> None:
    """Raise the number of connections that may be open at once to what the system grants."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@contextmanager
def connected(arguments: ServerArguments, address: str | None = None) -> Iterator[None]:
    """Use Ray while the block runs.

    Args:
        address: of a cluster; `None` for processes of this machine alone.

    Raises:
        InputError: the cluster cannot be reached.
    """
    options: dict[str, Any] = {"address": address}
    if address is None:
        needed = arguments.threads_each() * len(arguments.models) * (arguments.max_replicas or arguments.replicas)
        options = {"address": "local", "num_cpus": max(needed, os.cpu_count() or 1), "include_dashboard": False}
        options |= {"object_store_memory": STORE_BYTES, "log_to_driver": False}
        if arguments.gpus == 0:
            options["num_gpus"] = 0
    # Ray tells on standard error what it does at each step, and in its own files, which stay.
    os.environ.setdefault("RAY_SERVE_LOG_TO_STDERR", "0")
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")
    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    # Ray gives its workers the lowest priority but four, which is for batch jobs.
    os.environ.setdefault("RAY_worker_niceness", "0")
    _start_ray(options)
    try:
        yield
    finally:
        with _without_output():
            ray.shutdown()


@contextmanager
def _without_output() -> Iterator[None]:
    """Print nothing: Ray, while it stops, tells of calls that fail because it stops."""
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        yield


def _start_ray(options: dict[str, Any]) -> None:
    for left in reversed(range(RAY_STARTS)):
        try:
            # Its warnings are for those who run clusters.
            level = logging.ERROR if options["address"] == "local" else logging.WARNING
            ray.init(namespace=NAME, logging_level=level, **options)
            return
        except Exception as error:  # Ray raises plain ones, too
            ray.shutdown()
            is_slow = "timed out" in str(error) or isinstance(error, TimeoutError)
            if is_slow and left:
                print("Ray did not start in time: the machine is busy. Trying again.", file=sys.stderr, flush=True)
                continue
            place = "on this machine" if options["address"] == "local" else f"at {options['address']}"
            raise InputError(f"Ray cannot be reached {place}: {reason(error)}") from None


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
