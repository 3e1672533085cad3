"""Starts the server on this machine or on a Ray cluster, and stops it without losing a request."""

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event
from typing import Any

import ray
from ray import serve
from ray.serve.config import HTTPOptions, ProxyLocation

from ..errors import InputError, reason
from ..runtime.signals import StopSignals
from .application import API, DRAIN_SECONDS, IMPORT_PATH, NAME, ServerArguments, build

HOST, PORT = "127.0.0.1", 5000
# The store of objects that pass between processes: texts are small.
STORE_BYTES = 128 * 1024 * 1024


def launch(arguments: ServerArguments, host: str, port: int, address: str | None = None) -> None:
    """Serve until Ctrl+C or SIGTERM; SIGHUP opens models again whose files have changed.

    Args:
        address: of a Ray cluster; `None` for processes of this machine alone.

    Raises:
        InputError: a model cannot be served, the port is not free, or the cluster cannot be reached.
    """
    reload = Event()
    # In this order, since Ray sets a handler of its own when it starts.
    with served(arguments, host, port, address) as url, StopSignals() as signals:
        if hasattr(signal, "SIGHUP"):
            signal.signal(signal.SIGHUP, lambda *_: reload.set())
        print(f"Serving at {url}. Its API: {url}/docs. Ctrl+C stops the server.", flush=True)
        while not signals.received:
            if reload.wait(0.5):
                reload.clear()
                _reload(arguments)
        print("Stopping: requests under way are finished.", flush=True)
        drain()


@contextmanager
def served(
    arguments: ServerArguments, host: str = HOST, port: int = PORT, address: str | None = None
) -> Iterator[str]:
    """Serve while the block runs, and yield the address."""
    application = build(arguments)
    if address is None:
        check_port(host, port)
    _connect(arguments, address)
    try:
        where = ProxyLocation.EveryNode if address else ProxyLocation.HeadOnly
        serve.start(proxy_location=where, http_options=HTTPOptions(host=host, port=port))
        try:
            serve.run(application, name=NAME, route_prefix="/")
        except RuntimeError as error:
            raise InputError(f"The server could not be started: {reason(error)}") from None
        yield f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}"
    finally:
        with suppress(Exception):
            serve.delete(NAME) if address else serve.shutdown()
        ray.shutdown()


def _connect(arguments: ServerArguments, address: str | None) -> None:
    options: dict[str, Any] = {"address": address}
    if address is None:
        needed = arguments.threads_each() * len(arguments.models) * (arguments.max_replicas or arguments.replicas)
        options = {"address": "local", "num_cpus": max(needed, os.cpu_count() or 1), "include_dashboard": False}
        options["object_store_memory"] = STORE_BYTES
        if arguments.gpus == 0:
            options["num_gpus"] = 0
    # Ray tells on standard error what it does at each step, and in its own files, which stay.
    os.environ.setdefault("RAY_SERVE_LOG_TO_STDERR", "0")
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")
    # Ray gives its workers the lowest priority but four, which is for batch jobs.
    os.environ.setdefault("RAY_worker_niceness", "0")
    try:
        ray.init(namespace=NAME, logging_level=logging.WARNING, **options)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise InputError(f"Ray cannot be reached at {address or 'this machine'}: {reason(error)}") from None


def drain() -> None:
    """Refuse new requests, and wait for those under way."""

    async def finish() -> int:
        return await serve.get_deployment_handle(API, NAME).drain.remote(DRAIN_SECONDS)

    try:
        left = asyncio.run(asyncio.wait_for(finish(), DRAIN_SECONDS + 5))
    except Exception as error:
        print(f"The requests under way could not be waited for: {reason(error)}", file=sys.stderr)
        return
    if left:
        print(f"{left} requests were not finished after {DRAIN_SECONDS} seconds.", file=sys.stderr)


def _reload(arguments: ServerArguments) -> None:
    started = time.monotonic()
    try:
        serve.run(build(arguments), name=NAME, route_prefix="/")
    except (InputError, RuntimeError) as error:
        print(f"The models were not opened again: {reason(error)}", file=sys.stderr)
        return
    print(f"Models whose files have changed were opened again in {time.monotonic() - started:.0f} s.", flush=True)


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


def config_file(arguments: ServerArguments, host: str, port: int) -> str:
    """The same server as a config file of Ray Serve, for `serve deploy` and KubeRay."""
    import yaml

    given = arguments.model_dump(exclude_defaults=True)
    application = {"name": NAME, "route_prefix": "/", "import_path": IMPORT_PATH, "args": given}
    content = {"http_options": {"host": host, "port": port}, "applications": [application]}
    return yaml.safe_dump(content, sort_keys=False)
