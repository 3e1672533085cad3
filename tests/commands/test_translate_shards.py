"""`scripts/translate_shards.py` on Ray: two simulated machines, with workers and drivers that are killed."""

import gzip
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from hf_vaswani.cli import main
from hf_vaswani.commands.translate_shards import make_parser

from ..conftest import tiny_model

PROJECT = Path(__file__).parents[2]
SHORT = ["--max_new_tokens", "2", "--num_beams", "1"]


def write_shards(folder: Path, *numbers: int) -> None:
    """Write shards with the given numbers of short lines."""
    folder.mkdir()
    generator = random.Random(0)
    for shard, number in enumerate(numbers):
        lines = (
            " ".join(generator.choices([f"w{i}" for i in range(36)], k=generator.randint(0, 4))) for _ in range(number)
        )
        (folder / f"{shard}.txt").write_text("".join(f"{line}\n" for line in lines))


def translated_by_one_process(model: Path, folder: Path, output: Path) -> dict[str, bytes]:
    """The translation of each shard by `hf-vaswani translate`."""
    output.mkdir()
    for path in folder.glob("*.txt"):
        assert main(["translate", str(model), "--input", str(path), "--output", str(output / path.name), *SHORT]) == 0
    return contents(output)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.txt")}


def actor_pids() -> list[int]:
    """The process ids of all translation actors, on all simulated machines."""
    return [process.pid for process in psutil.Process().children(recursive=True) if is_actor(process)]


def is_actor(process: psutil.Process) -> bool:
    try:
        return process.cmdline()[:1] == ["ray::OrderedWorker.do"]
    except psutil.Error:
        return False


@pytest.fixture(scope="module")
def cluster():
    """Two machines with one core each."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Workers must import the package from this checkout.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(PROJECT))
        machines = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        machines.add_node(num_cpus=1)
        yield machines.address
        machines.shutdown()


def script(*arguments) -> int:
    return main(list(map(str, arguments)), parser=make_parser())


@pytest.mark.slow
def test_100_000_lines_match_one_process_despite_killed_workers(cluster, saved_model, tmp_path):
    write_shards(tmp_path / "in", 60_000, 30_000, 10_000)
    killed, is_done = [], threading.Event()

    def kill_twice() -> None:
        while len(killed) < 2 and not is_done.wait(0.05):
            for pid in actor_pids():
                if pid not in killed and list((tmp_path / "out").glob(".*.translations")):
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)
                    break
            if killed and is_done.wait(5):
                return

    killer = threading.Thread(target=kill_twice)
    killer.start()
    try:
        assert script(saved_model, tmp_path / "in", tmp_path / "out", *SHORT, "--address", cluster) == 0
    finally:
        is_done.set()
        killer.join()
    assert len(set(killed)) == 2
    expected = translated_by_one_process(saved_model, tmp_path / "in", tmp_path / "one")
    assert sum(content.count(b"\n") for content in expected.values()) == 100_000
    assert contents(tmp_path / "out") == expected
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [".translation.json", *sorted(expected)]


@pytest.mark.slow
def test_killed_driver_resumes_and_an_unreadable_shard_is_reported_at_the_end(cluster, saved_model, tmp_path, capsys):
    write_shards(tmp_path / "in", 12_000, 5_000)
    (tmp_path / "in" / "0.damaged.txt.gz").write_bytes(gzip.compress(b"w1\n" * 5000)[:-9])
    arguments = [saved_model, tmp_path / "in", tmp_path / "out", *SHORT, "--address", cluster]
    driver = subprocess.Popen(
        [sys.executable, str(PROJECT / "scripts" / "translate_shards.py"), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )
    growing = tmp_path / "out" / ".0.txt.translations"
    while driver.poll() is None and not (growing.exists() and growing.stat().st_size):
        time.sleep(0.005)
    driver.kill()
    assert driver.wait() == -signal.SIGKILL
    done = growing.read_bytes()
    assert done and not (tmp_path / "out" / "1.txt").exists()
    assert script(*arguments) == 2
    error = capsys.readouterr().err.splitlines()
    assert error[-2].startswith(f"error: {tmp_path / 'in' / '0.damaged.txt.gz'} is truncated")
    assert error[-1] == f"error: 2 shards of 3 finished in {tmp_path / 'out'}."
    expected = translated_by_one_process(saved_model, tmp_path / "in", tmp_path / "one")
    assert contents(tmp_path / "out") == expected and expected["0.txt"].startswith(done)
    (tmp_path / "in" / "0.damaged.txt.gz").unlink()
    assert script(*arguments) == 0
    assert "is finished: it has all 2 shards. Nothing to do." in capsys.readouterr().err


@pytest.mark.slow
def test_errors_are_reported_before_anything_is_translated(cluster, saved_model, tmp_path, capsys):
    write_shards(tmp_path / "in", 10)
    folders = [tmp_path / "in", tmp_path / "out"]
    tiny_model(source_language="de", target_language="en").save_pretrained(saved_model)
    for arguments, message in (
        (["absent", *folders], "absent is not a local folder"),
        ([saved_model, *folders, "--num_actors", 3], "3 actors need as many CPUs, but the Ray cluster has 2"),
        ([saved_model, *folders, "--source_language", "fr"], "--source_language"),
    ):
        assert script(*arguments, "--address", cluster) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "out" / "0.txt").exists()


def test_all_option_errors_are_reported_together_even_without_ray(saved_model, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    options = ["--samples", "3", "--column", "translation"]
    assert script(saved_model, tmp_path / "absent", tmp_path / "out", *options) == 2
    assert capsys.readouterr().err.splitlines() == [
        "error: --samples needs --mbr chrf or --mbr bleu.",
        f"error: {tmp_path / 'absent'} is not a folder. Specify the folder of the shards.",
        'error: ray is not installed. Install it with: pip install "hf-vaswani[ray]"',
        "error: --output_column translation is the column of the texts. Choose another name.",
    ]


def test_unreachable_ray_address_is_one_error(saved_model, tmp_path, capsys):
    pytest.importorskip("ray")
    write_shards(tmp_path / "in", 10)
    assert script(saved_model, tmp_path / "in", tmp_path / "out", "--address", "127.0.0.1:1") == 2
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
