"""The server as an application of Ray Serve, which `serve build`, `serve deploy` and KubeRay can import.

A config file names `hf_vaswani.server.application:build` and gives it the fields of [`ServerArguments`].
"""

import asyncio
from typing import Any

from ray import serve
from ray.serve.handle import DeploymentHandle

from ..translator.backends.selection import BackendSelection
from .accounts import Account, Accounts, read_accounts
from .api import MOST_REQUESTS, make_app
from .arguments import DRAIN_SECONDS, MANY_CHUNKS, MOST_CHUNKS, ServerArguments, log_requests
from .catalog import Catalog, read_catalog
from .glossaries import Glossaries
from .model_translator import ModelTranslator
from .service import Service

NAME, API = "hf_vaswani", "Api"
IMPORT_PATH = f"{__name__}:build"


def build(arguments: ServerArguments) -> serve.Application:
    """The application of a server; errors as in [`read_arguments`]."""
    catalog, accounts = read_arguments(arguments)
    api = serve.deployment(
        serve.ingress()(_Api), name=API, max_ongoing_requests=MOST_REQUESTS, graceful_shutdown_timeout_s=DRAIN_SECONDS,
        ray_actor_options={"num_cpus": 0},
    )  # fmt: skip
    translators = [_translator(arguments, name, path) for name, path in catalog.models.items()]
    return api.bind(catalog, accounts, arguments, *translators)


def read_arguments(arguments: ServerArguments) -> tuple[Catalog, dict[str, Account] | None]:
    """What is served, and the accounts by key, or `None` if no key is needed.

    Raises:
        InputError: a model cannot be served, or the file of keys cannot be used.
        ValueError: as in [`check_arguments`].
    """
    check_arguments(arguments)
    return read_catalog(arguments.models, arguments.via), read_accounts(arguments.keys)


def check_arguments(arguments: ServerArguments) -> None:
    """Check what needs no file of the machines that serve.

    Raises:
        ValueError: the engine is unknown or not installed, or as in [`ServerArguments.check`].
    """
    arguments.check()
    BackendSelection(arguments.engine, arguments.quantize)


def _translator(arguments: ServerArguments, name: str, model: str) -> serve.Application:
    threads = arguments.threads_each()
    options: dict[str, Any] = {"num_replicas": arguments.replicas}
    if arguments.max_replicas and arguments.max_replicas > arguments.replicas:
        scaling = {"min_replicas": arguments.replicas, "max_replicas": arguments.max_replicas}
        options = {"autoscaling_config": {**scaling, "target_ongoing_requests": MANY_CHUNKS}}
    deployment = serve.deployment(
        ModelTranslator,
        name=name,
        max_ongoing_requests=MOST_CHUNKS,
        max_queued_requests=MOST_CHUNKS,
        graceful_shutdown_timeout_s=DRAIN_SECONDS,
        health_check_period_s=1,
        health_check_timeout_s=60,
        ray_actor_options={
            "num_cpus": threads,
            "num_gpus": arguments.gpus,
            "runtime_env": {"env_vars": {"OMP_NUM_THREADS": str(threads)}},
        },
        **options,
    )
    return deployment.bind(model, arguments.engine, arguments.quantize, arguments.keep)


class _Api:
    """The replica that the clients of a cluster reach: it holds quotas and documents, so there is one."""

    def __init__(
        self,
        catalog: Catalog,
        accounts: dict[str, Account] | None,
        arguments: ServerArguments,
        *handles: DeploymentHandle,
    ):
        log_requests(arguments.log_file)
        own, stored = dict(zip(catalog.models, handles)), Glossaries(arguments.glossaries)
        self.routes = make_app(catalog, own, Accounts(accounts), arguments.limits, stored)
        self.service: Service = self.routes.state.service

    def __serve_build_asgi_app__(self) -> object:
        return self.routes

    async def use(self, catalog: Catalog, accounts: dict[str, Account] | None) -> None:
        self.service.use(catalog, accounts)

    async def drain(self, seconds: float) -> int:
        return await asyncio.to_thread(self.service.drain, seconds)
