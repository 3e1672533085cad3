"""Batches encoded on Ray: the order of the results, and the loss of processes and machines."""

import os
import time
from pathlib import Path

import pytest

from hf_vaswani.errors import InputError
from hf_vaswani.runtime import ray_session as ray_session_module
from hf_vaswani.runtime.ray_session import ray_session

from .conftest import load_script

PROJECT = Path(__file__).parents[2]
script = load_script("prepare_on_ray")


def work(number: int) -> int:
    """Squares; odd numbers take longer, and some numbers are special."""
    if number == -1:
        raise InputError("minus one")
    if number == -3:
        os._exit(1)
    time.sleep(0.3 * (number % 2))
    return number * number


@pytest.fixture
def machines():
    """Two machines with a core each; this process belongs to the first."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(PROJECT))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        with ray_session(cluster.address):
            cluster.second = cluster.add_node(num_cpus=1)
            cluster.wait_for_nodes()
            yield cluster
        cluster.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize("number", [None, 1])
def test_results_come_in_order_and_errors_are_raised(machines, number):
    encode = script.encode_on_ray
    assert list(encode(number, work, iter(range(30)))) == [number**2 for number in range(30)]
    assert list(encode(number, work, iter([]))) == []
    with pytest.raises(InputError, match="minus one"):
        list(encode(number, work, iter([1, -1])))


@pytest.mark.slow
def test_batch_that_kills_its_process_each_time_is_given_up(machines, monkeypatch):
    monkeypatch.setattr(ray_session_module, "RETRIES", 1)
    with pytest.raises(InputError, match="Ray could not tokenize the text: "):
        list(script.encode_on_ray(None, work, iter([-3])))


@pytest.mark.slow
def test_batches_of_a_lost_machine_are_encoded_by_the_others(machines):
    results = script.encode_on_ray(None, work, iter(range(60)))
    got = [next(results) for _ in range(6)]
    machines.remove_node(machines.second, allow_graceful=False)
    assert got + list(results) == [number**2 for number in range(60)]
