"""Starts the server on a Ray cluster, where every node answers requests."""

import asyncio
import sys
from contextlib import suppress

from ray import serve
from ray.serve.config import HTTPOptions, ProxyLocation

from ..errors import InputError, reason
from ..runtime.signals import StopSignals
from .application import API, DRAIN_SECONDS, IMPORT_PATH, NAME, ServerArguments, build, read_arguments
from .launch import connected, reload_models, reload_report, wait


def launch_on_cluster(arguments: ServerArguments, host: str, port: int, address: str) -> None:
    """Serve until Ctrl+C or SIGTERM; SIGHUP opens models again whose files have changed.

    Raises:
        InputError: a model cannot be served, or the cluster cannot be reached.
    """
    application = build(arguments)
    with connected(arguments, address), StopSignals() as signals:
        serve.start(proxy_location=ProxyLocation.EveryNode, http_options=HTTPOptions(host=host, port=port))
        try:
            try:
                serve.run(application, name=NAME, route_prefix="/")
            except RuntimeError as error:
                raise InputError(f"The server could not be started: {reason(error)}") from None
            print(f"Serving on port {port} of every node. Ctrl+C stops the server.", flush=True)

            def reload() -> str:
                return asyncio.run(_reload(arguments))

            wait(signals, reload)
            _drain()
        finally:
            with suppress(Exception):
                serve.delete(NAME)


async def _reload(arguments: ServerArguments) -> str:
    """Open models again whose files have changed, and read the keys again; errors as in [`reload_models`]."""
    catalog, accounts = read_arguments(arguments)
    handles = {name: serve.get_deployment_handle(name, NAME) for name in catalog.models}
    changed = await reload_models(handles, catalog, arguments.replicas)
    await serve.get_deployment_handle(API, NAME).use.remote(catalog, accounts)
    return reload_report(changed)


def _drain() -> None:
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


def config_file(arguments: ServerArguments, host: str, port: int) -> str:
    """The same server as a config file of Ray Serve, for `serve deploy` and KubeRay."""
    import yaml

    given = arguments.model_dump(exclude_defaults=True)
    application = {"name": NAME, "route_prefix": "/", "import_path": IMPORT_PATH, "args": given}
    content = {"http_options": {"host": host, "port": port}, "applications": [application]}
    return yaml.safe_dump(content, sort_keys=False)
