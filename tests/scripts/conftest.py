"""Scripts as modules, and a cluster of two machines."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from hf_vaswani.runtime.ray_session import ray_session

PROJECT = Path(__file__).parents[2]
SCRIPTS = PROJECT / "scripts"


def load_script(name: str) -> ModuleType:
    """A script of the folder `scripts`, without its effects."""
    specification = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def two_machines():
    """Two machines of Ray with a core each; this process belongs to the first."""
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
