"""Starts the server on a Ray cluster, where every node answers requests."""

import asyncio
import logging
import sys
from contextlib import suppress

from ray import serve
from ray.serve.config import HTTPOptions, ProxyLocation

from ..errors import InputError, reason
from ..runtime.ray_session import ray_session
from ..runtime.signals import StopSignals
from ..translator.translator_settings import content_digest
from .application import API, IMPORT_PATH, NAME, build, read_arguments
from .arguments import DRAIN_SECONDS, ServerArguments
from .launch import drain_report, event_loop, reload_report, run, wait

RELOAD_SECONDS = 600


def launch_on_cluster(arguments: ServerArguments, host: str, port: int, address: str) -> None:
    """Serve until Ctrl+C or SIGTERM; SIGHUP opens models again whose files have changed.

    Raises:
        InputError: a model cannot be served, or the cluster cannot be reached.
    """
    application = build(arguments)
    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    # Signals after Ray, which sets a handler of its own when it starts.
    with ray_session(address, log_to_driver=True), event_loop() as loop, StopSignals() as signals:
        serve.start(proxy_location=ProxyLocation.EveryNode, http_options=HTTPOptions(host=host, port=port))
        try:
            try:
                serve.run(application, name=NAME, route_prefix="/")
            except RuntimeError as error:
                raise InputError(f"The server could not be started: {reason(error)}") from None
            print(f"Serving on port {port} of every node. Ctrl+C stops the server.", flush=True)
            wait(signals, lambda: run(_reload(arguments), loop))
            try:
                drain_report(run(_drain(), loop))
            except Exception as error:
                print(f"The requests under way could not be waited for: {reason(error)}", file=sys.stderr)
        finally:
            with suppress(Exception):
                serve.delete(NAME)


async def _reload(arguments: ServerArguments) -> str:
    """Open models again whose files have changed, and read the keys again.

    Raises:
        InputError: a model cannot be opened; its replicas translate on with the old one.
    """
    catalog, accounts = read_arguments(arguments)
    changed = [name for name, path in catalog.models.items() if await _reload_model(name, path, arguments.replicas)]
    await serve.get_deployment_handle(API, NAME).use.remote(catalog, accounts)
    return reload_report(changed)


async def _reload_model(name: str, path: str, replicas: int) -> bool:
    """Have all replicas of a model open it again if its files have changed, and tell whether they have."""
    handle = serve.get_deployment_handle(name, NAME)
    version, seen, has_changed = content_digest(path), set(), False
    for _ in range(replicas * 50):  # which of them answers is up to Ray
        try:
            replica, changed = await asyncio.wait_for(handle.reload.remote(version), RELOAD_SECONDS)
        except Exception as error:
            why = reason(getattr(error, "cause", None) or error)
            raise InputError(why if path in why else f"{path}: {why}") from None
        seen.add(replica)
        has_changed |= changed
        if len(seen) >= replicas:
            break
    return has_changed


async def _drain() -> int:
    """Refuse new requests, wait for those under way, and return how many are left."""
    drain = serve.get_deployment_handle(API, NAME).drain
    return await asyncio.wait_for(drain.remote(DRAIN_SECONDS), DRAIN_SECONDS + 5)


def config_file(arguments: ServerArguments, host: str, port: int) -> str:
    """The same server as a config file of Ray Serve, for `serve deploy` and KubeRay."""
    import yaml

    given = arguments.model_dump(exclude_defaults=True)
    application = {"name": NAME, "route_prefix": "/", "import_path": IMPORT_PATH, "args": given}
    content = {"http_options": {"host": host, "port": port}, "applications": [application]}
    return yaml.safe_dump(content, sort_keys=False)
