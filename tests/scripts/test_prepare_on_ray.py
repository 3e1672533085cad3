"""Work divided among Ray actors: the order of the results, and the loss of processes and machines."""

import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from hf_vaswani.errors import InputError
from hf_vaswani.runtime import ray_actors
from hf_vaswani.runtime.ray_actors import RayActors, ray_session

PROJECT = Path(__file__).parents[2]


def work(number: int) -> int:
    """Squares; odd numbers take longer, and some numbers are special."""
    if number == -1:
        raise InputError("minus one")
    if number == -2:
        raise ZeroDivisionError("minus two")
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
def test_results_come_in_order_and_errors_are_raised(machines):
    actors = RayActors(work)
    assert actors.number == 2
    assert list(actors.map(range(30))) == [number**2 for number in range(30)]
    assert list(actors.map([])) == []
    with pytest.raises(InputError, match="minus one"):
        list(actors.map([1, -1]))
    with pytest.raises(RuntimeError, match="ZeroDivisionError: minus two"):
        list(actors.map([-2]))
    actors.close()


@pytest.mark.slow
def test_work_that_kills_its_process_each_time_is_given_up(machines, monkeypatch):
    monkeypatch.setattr(ray_actors, "RETRIES", 1)
    actors = RayActors(work)
    with pytest.raises(InputError, match="was killed 2 times during the same work"):
        list(actors.map([-3]))
    actors.close()


@pytest.mark.slow
def test_work_of_a_lost_machine_is_done_by_the_others(machines):
    actors = RayActors(work)
    results = actors.map(range(60))
    got = [next(results) for _ in range(6)]
    machines.remove_node(machines.second, allow_graceful=False)
    assert got + list(results) == [number**2 for number in range(60)]
    actors.close()


def test_there_is_an_actor_for_each_core_and_none_reserves_a_gpu(monkeypatch):
    reserved = []

    def options(**given):
        reserved.append(given)
        return SimpleNamespace(remote=lambda work: None)

    cluster = {"GPU": 1.0, "CPU": 6.0}
    actor = SimpleNamespace(options=options)
    stub = SimpleNamespace(cluster_resources=lambda: cluster, remote=lambda cls: actor, put=lambda work: work)
    monkeypatch.setitem(sys.modules, "ray", stub)
    assert RayActors(work).number == 6 and RayActors(work, 2).number == 2
    assert all("num_gpus" not in given and given["num_cpus"] == 1 for given in reserved)
    with pytest.raises(InputError, match="7 actors need as many CPUs, but the Ray cluster has 6"):
        RayActors(work, 7)
