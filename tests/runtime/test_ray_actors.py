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


def make_work():
    return work


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
    actors = RayActors(make_work)
    assert actors.number == 2 and actors.each(3) == [9, 9]
    items = [("a", 1), ("b", None), ("c", 2), ("d", 3), ("e", None), *(("f", number) for number in range(4, 30))]
    assert list(actors.map(items)) == [(tag, number, None if number is None else number**2) for tag, number in items]
    assert list(actors.map([])) == []
    with pytest.raises(InputError, match="minus one"):
        list(actors.map([(0, 1), (0, -1)]))
    with pytest.raises(RuntimeError, match="ZeroDivisionError: minus two"):
        list(actors.map([(0, -2)]))
    actors.close()


@pytest.mark.slow
def test_work_that_kills_its_process_each_time_is_given_up(machines, monkeypatch):
    monkeypatch.setattr(ray_actors, "RETRIES", 1)
    actors = RayActors(make_work)
    with pytest.raises(InputError, match="was killed 2 times during the same work"):
        list(actors.map([(0, -3)]))
    actors.close()


@pytest.mark.slow
def test_work_of_a_lost_machine_is_done_by_the_others(machines):
    actors = RayActors(make_work)
    results = actors.map((None, number) for number in range(60))
    got = [next(results)[2] for _ in range(6)]
    machines.remove_node(machines.second, allow_graceful=False)
    assert got + [result for _, _, result in results] == [number**2 for number in range(60)]
    actors.close()


@pytest.mark.parametrize(("uses_gpus", "resources"), [(True, (1, 1)), (False, (6, 0))])
def test_actors_that_need_no_gpu_reserve_none(monkeypatch, uses_gpus, resources):
    reserved = []

    def options(**given):
        reserved.append(given["num_gpus"])
        return SimpleNamespace(remote=lambda make: None)

    cluster = {"GPU": 1.0, "CPU": 6.0}
    stub = SimpleNamespace(cluster_resources=lambda: cluster, remote=lambda cls: SimpleNamespace(options=options))
    monkeypatch.setitem(sys.modules, "ray", stub)
    actors = RayActors(make_work, uses_gpus=uses_gpus)
    assert (actors.number, *reserved) == resources
