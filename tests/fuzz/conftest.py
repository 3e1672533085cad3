"""Workers that run inputs, one per core available to this process, and the world, which is made once."""

import multiprocessing
import os
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import pytest

from hf_vaswani.runtime.cores import available_cores

if sys.platform == "linux":  # elsewhere there is neither fork nor a limit on memory
    from . import runner
else:
    collect_ignore_glob = ["*"]


@pytest.fixture(scope="session")
def run_all(tmp_path_factory) -> Callable[[list["runner.Input"]], list["runner.Outcome"]]:
    """Runs inputs in parallel; returns their outcomes in order."""
    folder = tmp_path_factory.mktemp("fuzz")
    workers = max(1, available_cores() // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1)))
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, spawn, initializer=runner.prepare, initargs=(folder,)) as pool:
        pool.submit(runner.make_world, folder).result()
        yield lambda inputs: list(pool.map(runner.run, inputs, [folder] * len(inputs), chunksize=4))
