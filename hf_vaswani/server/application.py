"""The server as an application of Ray Serve, which `serve build`, `serve deploy` and KubeRay can import.

A config file names `hf_vaswani.server.application:build` and gives it the fields of [`ServerArguments`]. On one
machine, only its models are deployments: clients reach them without Ray's proxy.
"""

import asyncio
import logging
import os
import sys
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from ray import serve
from ray.serve.handle import DeploymentHandle

from ..text.keep import keep_patterns
from ..translator.backends.selection import BackendSelection
from .accounts import Account, Accounts, Limits, read_accounts
from .api import MOST_REQUESTS, make_app
from .catalog import Catalog, read_catalog
from .glossaries import Glossaries
from .replica import Translator
from .service import Service

NAME, API = "hf_vaswani", "Api"
IMPORT_PATH = f"{__name__}:build"
# Parts of requests that wait for one model, at most.
MOST_CHUNKS = 2000
DRAIN_SECONDS = 60


class ServerArguments(BaseModel):
    """What is served, and how."""

    model_config = ConfigDict(extra="forbid")

    models: list[str] = Field(min_length=1, description="folders or Hub ids, also SOURCE-TARGET=MODEL")
    engine: str = "auto"
    quantize: str | None = None
    keep: list[str] = Field([], description="what stays as it is in all translations, as in the pipeline")
    replicas: int = Field(1, ge=1, description="processes that translate with each model")
    max_replicas: int | None = Field(None, ge=1, description="as many as the load needs, up to this number")
    threads: int | None = Field(None, ge=1, description="threads of each; default: the cores, shared by all")
    gpus: float = Field(0, ge=0, description="GPUs of each")
    keys: str | None = Field(None, description="file of keys, see accounts.py")
    glossaries: str | None = Field(None, description="folder of glossaries; default: kept until the server stops")
    log_file: str | None = Field(
        None, description="file for a line of JSON per request; default: standard error, unless it is a terminal"
    )
    limits: Limits = Limits()

    def threads_each(self) -> int:
        # max_replicas need not run at once.
        return self.threads or max((os.cpu_count() or 1) // (len(self.models) * self.replicas), 1)


def build(arguments: ServerArguments) -> serve.Application:
    """The application of a server; errors as in [`read_arguments`]."""
    catalog, accounts = read_arguments(arguments)
    api = serve.deployment(
        serve.ingress()(_Api), name=API, max_ongoing_requests=MOST_REQUESTS, graceful_shutdown_timeout_s=DRAIN_SECONDS,
        ray_actor_options={"num_cpus": 0},
    )  # fmt: skip
    return api.bind(catalog, accounts, arguments, *translators(arguments, catalog).values())


def check_arguments(arguments: ServerArguments) -> None:
    """Check what needs no file of the machine that serves.

    Raises:
        ValueError: the engine is unknown or not installed, `keep` is not a pattern, or a model is named twice.
    """
    BackendSelection(arguments.engine, arguments.quantize)
    keep_patterns(arguments.keep)
    if twice := [name for name in arguments.models if arguments.models.count(name) > 1]:
        raise ValueError(f"{twice[0]} is named twice; name it once.")


def read_arguments(arguments: ServerArguments) -> tuple[Catalog, dict[str, Account] | None]:
    """What is served, and the accounts by key, or `None` if no key is needed.

    Raises:
        InputError: a model cannot be served, or the file of keys cannot be used.
        ValueError: as in [`check_arguments`].
    """
    check_arguments(arguments)
    return read_catalog(arguments.models), read_accounts(arguments.keys)


def translators(arguments: ServerArguments, catalog: Catalog) -> dict[str, serve.Application]:
    """The deployment of each model, by name."""
    return {name: _translator(arguments, name, path) for name, path in catalog.models.items()}


def _translator(arguments: ServerArguments, name: str, model: str) -> serve.Application:
    threads = arguments.threads_each()
    options: dict[str, Any] = {"num_replicas": arguments.replicas}
    if arguments.max_replicas and arguments.max_replicas > arguments.replicas:
        scaling = {"min_replicas": arguments.replicas, "max_replicas": arguments.max_replicas}
        options = {"autoscaling_config": {**scaling, "target_ongoing_requests": 16}}
    deployment = serve.deployment(
        Translator,
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

    def __serve_build_asgi_app__(self) -> Any:
        return self.routes

    async def use(self, catalog: Catalog, accounts: dict[str, Account] | None) -> None:
        self.service.use(catalog, accounts)

    async def drain(self, seconds: float) -> int:
        return await asyncio.to_thread(self.service.drain, seconds)


def log_requests(path: str | None) -> None:
    """Write a line of JSON for each request to a file, or to standard error if nobody watches it."""
    logger = logging.getLogger("hf_vaswani.server")
    if path is None and sys.stderr.isatty():
        logger.setLevel(logging.WARNING)
        return
    logger.setLevel(logging.INFO)
    logger.propagate = False
    if not logger.handlers:
        handler = logging.FileHandler(path, encoding="utf-8") if path else logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(message)s"))
        logger.addHandler(handler)
