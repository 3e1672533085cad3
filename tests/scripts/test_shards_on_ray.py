"""`scripts/translate_shards.py` and `BatchTranslator` on Ray: two simulated machines, with actors that are killed."""

import os
import random
import signal
import threading
from pathlib import Path

import psutil
import pytest

from hf_vaswani.cli import main

from ..conftest import tiny_model
from .conftest import SCRIPTS, load_script

script = load_script("translate_shards")
SHORT = ["--max_new_tokens", "2", "--num_beams", "1"]


def write_files(folder: Path, *numbers: int) -> None:
    """Write files with the given numbers of short lines."""
    folder.mkdir()
    generator = random.Random(0)
    for file, number in enumerate(numbers):
        lines = (
            " ".join(generator.choices([f"w{i}" for i in range(36)], k=generator.randint(0, 4))) for _ in range(number)
        )
        (folder / f"{file}.txt").write_text("".join(f"{line}\n" for line in lines))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.txt")}


def actor_pids() -> list[int]:
    """The process ids of the actors that translate, on all simulated machines."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            found += [process.pid] if process.cmdline()[:1] == ["ray::MapWorker(MapBatches(Translate)).submit"] else []
        except psutil.Error:
            continue
    return found


@pytest.fixture(scope="module")
def cluster():
    """Two machines with one core each."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Actors must import the package from this checkout.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(SCRIPTS.parent))
        machines = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        machines.add_node(num_cpus=1)
        yield machines.address
        machines.shutdown()


@pytest.fixture(autouse=True)
def by_value():
    """Actors get the functions of the script itself, as if it were run."""
    cloudpickle = pytest.importorskip("ray").cloudpickle
    cloudpickle.register_pickle_by_value(script)
    yield
    cloudpickle.unregister_pickle_by_value(script)


def run(*arguments) -> int:
    return main(list(map(str, arguments)), parser=script.make_parser())


@pytest.mark.slow
def test_files_match_one_process_despite_a_killed_actor(cluster, saved_model, tmp_path):
    write_files(tmp_path / "in", 40_000, 10_000)
    killed, is_done = [], threading.Event()

    def kill() -> None:
        while not killed and not is_done.wait(0.05):
            for pid in actor_pids()[:1]:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        assert run(saved_model, tmp_path / "in", tmp_path / "out", *SHORT, "--address", cluster) == 0
    finally:
        is_done.set()
        killer.join()
    assert killed
    (tmp_path / "one").mkdir()
    for path in (tmp_path / "in").iterdir():
        output = f"--output={tmp_path / 'one' / path.name}"
        assert main(["translate", str(saved_model), f"--input={path}", output, *SHORT]) == 0
    expected = contents(tmp_path / "one")
    assert sum(content.count(b"\n") for content in expected.values()) == 50_000
    assert contents(tmp_path / "out") == expected


@pytest.mark.slow
def test_errors_are_reported_before_anything_is_written(cluster, saved_model, tmp_path, capsys):
    write_files(tmp_path / "in", 10)
    folders = [tmp_path / "in", tmp_path / "out"]
    tiny_model(source_language="de", target_language="en").save_pretrained(saved_model)
    for arguments, message in (
        (["absent", *folders], "absent is not a local folder"),
        ([saved_model, *folders, "--num_actors", 3], "3 actors need as many CPUs, but the Ray cluster has 2"),
        ([saved_model, *folders, "--source_language", "fr"], "--source_language"),
    ):
        assert run(*arguments, "--address", cluster) == 2
        assert message in capsys.readouterr().err
    assert not list((tmp_path / "out").iterdir())


def test_unreachable_ray_address_is_one_error(saved_model, tmp_path, capsys):
    write_files(tmp_path / "in", 10)
    assert run(saved_model, tmp_path / "in", tmp_path / "out", "--address", "127.0.0.1:1") == 2
    assert capsys.readouterr().err.startswith("error: No Ray cluster answers at 127.0.0.1:1: Connection refused.")


@pytest.mark.slow
def test_ray_data_translates_a_dataset_in_actors(cluster, saved_model):
    import ray

    from hf_vaswani.translator import BatchTranslator

    texts = [" ".join(f"w{i}" for i in range(n % 5)) for n in range(300)]
    options = {"max_new_tokens": 2, "num_beams": 1}
    expected = BatchTranslator(saved_model, **options)({"text": texts})["translation"]
    ray.init(address=cluster, log_to_driver=False)
    try:
        dataset = ray.data.from_items([{"id": n, "text": text} for n, text in enumerate(texts)])
        arguments = {"model": saved_model, **options}
        rows = dataset.map_batches(
            BatchTranslator, fn_constructor_kwargs=arguments, batch_size=64, concurrency=1
        ).take_all()
    finally:
        ray.shutdown()
    assert [row["translation"] for row in sorted(rows, key=lambda row: row["id"])] == expected
