"""What is served, and how: the fields of a config file, which the options of `hf-vaswani serve` are, too."""

import logging
import math
import os
import sys

from pydantic import BaseModel, ConfigDict, Field

from ..errors import InputError
from ..text.keep_patterns import keep_patterns
from .accounts import Limits

# Parts of requests that wait for one model, at most, or for one of its processes.
MOST_CHUNKS = 2000
# Of these, a process gets about as many before another one is started, up to `max_replicas`.
MANY_CHUNKS = 16
DRAIN_SECONDS = 60


class ServerArguments(BaseModel):
    """What is served, and how."""

    model_config = ConfigDict(extra="forbid")

    models: list[str] = Field(min_length=1, description="folders or Hub ids, also SOURCE-TARGET=MODEL")
    via: str | None = Field(None, description="language over which pairs are translated that no model has")
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

    def most_replicas(self) -> int:
        return max(self.max_replicas or 0, self.replicas)

    def environment(self, number: int) -> dict[str, str]:
        """What the process of a number needs in its environment: its threads, and which GPUs are its own."""
        first, many = int(number * self.gpus), math.ceil(self.gpus)  # of 0.5 GPUs each, two share one
        given = os.environ.get("CUDA_VISIBLE_DEVICES")
        gpus = given.split(",") if given else list(map(str, range(first + many)))
        return {
            "OMP_NUM_THREADS": str(self.threads_each()),
            "CUDA_VISIBLE_DEVICES": ",".join(gpus[first : first + many]),
        }

    def check(self) -> None:
        """Check what needs neither files nor libraries of the machines that translate.

        Raises:
            ValueError: `keep` is not a pattern, or a model is named twice.
        """
        keep_patterns(self.keep)
        if twice := [name for name in self.models if self.models.count(name) > 1]:
            raise InputError(f"{twice[0]} is named twice; name it once.")


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
