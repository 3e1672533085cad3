"""Number of threads of a run on a CPU: user settings, the share of the cores, measurements, and busy cores."""

import types

import pytest
import torch

from hf_vaswani.runtime import threads
from hf_vaswani.runtime import threads as threads_module
from hf_vaswani.runtime.threads import (
    AdaptiveThreads,
    best_number,
    cores_of_run,
    fair_share,
    measure,
    numbers_to_try,
    requested_threads,
)
from hf_vaswani.training.checkpoints.checkpoint import checkpoint_folders, load_checkpoint
from hf_vaswani.training.train import train


@pytest.fixture(autouse=True)
def one_thread():
    yield
    torch.set_num_threads(1)


@pytest.fixture
def two_cores(monkeypatch):
    """A machine with two cores and no setting for the number of threads."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads, "available_cores", lambda: 2)
    monkeypatch.setattr("os.cpu_count", lambda: 2)


def fake_measurement(monkeypatch, **seconds):
    """Makes each measurement return these seconds for one and two threads."""
    numbers_of = {"one": 1, "two": 2}
    times = {numbers_of[name]: value for name, value in seconds.items()}
    monkeypatch.setattr(threads, "measure", lambda numbers, work: {number: times[number] for number in numbers})


def test_cpu_threads_takes_precedence_over_the_environment(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert requested_threads(2) == (2, "training.cpu_threads")
    assert requested_threads(None) == (3, "OMP_NUM_THREADS")
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert requested_threads(None)[0] is None


def test_omp_num_threads_is_respected_and_reported(recipe, monkeypatch, capsys):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    folder = train(recipe("--cpu_threads=null", "--max_steps=2")).folder
    line = "1 thread on 2 cores, as OMP_NUM_THREADS says. Set --cpu_threads for another number\n"
    assert line in capsys.readouterr().out
    assert torch.get_num_threads() == 1
    assert load_checkpoint(checkpoint_folders(folder / "checkpoints")[-1]).progress.threads == 1


def test_affinity_mask_is_respected_and_reported(recipe, monkeypatch, capsys):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr(threads, "available_cores", lambda: 1)
    train(recipe("--cpu_threads=null", "--max_steps=2"))
    assert "1 thread on 2 cores, as many as the affinity mask and limits" in capsys.readouterr().out
    assert torch.get_num_threads() == 1


def test_cores_of_a_mask_are_shared_among_the_processes_that_have_them():
    everyone = {0, 1, 2, 3}
    assert fair_share(everyone, [everyone, everyone]) == 2
    assert fair_share({0, 1}, [{0, 1}, {2, 3}]) == 2
    assert fair_share(everyone, [everyone] * 3) == 1
    assert fair_share({0}, [{0}, {0}]) == 0


def test_number_of_threads_changes_only_if_clearly_faster():
    assert best_number({2: 1.0, 1: 0.6}, current=2) == 2
    assert best_number({2: 1.0, 1: 0.1}, current=2) == 1
    assert best_number({1: 1.0, 2: 0.9}, current=1) == 1
    assert best_number({1: 1.0, 2: 0.6}, current=1) == 2


def test_numbers_of_threads_to_try_are_halved():
    assert numbers_to_try(16, 16) == [16, 15, 8, 4, 2, 1]
    assert numbers_to_try(2, 1) == [1, 2]
    assert numbers_to_try(1, 1) == [1]


def test_measurement_does_not_change_the_number_of_threads_or_random_numbers():
    torch.set_num_threads(1)
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    seconds = measure([1, 2], threads.feed_forward(16, 32, 64))
    assert torch.get_num_threads() == 1 and torch.equal(torch.rand(1), expected)
    assert set(seconds) == {1, 2} and min(seconds.values()) > 0


def test_run_beside_busy_processes_switches_to_fewer_threads(recipe, monkeypatch, capsys, two_cores):
    fake_measurement(monkeypatch, one=1.0, two=12.0)
    folder = train(recipe("--cpu_threads=null", "--max_steps=4")).folder
    assert torch.get_num_threads() == 1
    line = "switched from 2 to 1 thread, more than 10 times as fast in a short test: other processes use the cores"
    assert line in capsys.readouterr().out
    assert load_checkpoint(checkpoint_folders(folder / "checkpoints")[-1]).progress.threads == 1


@pytest.mark.slow
def test_resumed_run_keeps_its_number_of_threads_unless_another_is_clearly_faster(
    recipe, monkeypatch, capsys, two_cores
):
    fake_measurement(monkeypatch, one=1.0, two=12.0)
    train(recipe("--cpu_threads=null", "--max_steps=4"))
    fake_measurement(monkeypatch, one=1.0, two=0.9)
    torch.set_num_threads(2)
    train(recipe("--cpu_threads=null", "--max_steps=8"))
    assert torch.get_num_threads() == 1
    capsys.readouterr()
    fake_measurement(monkeypatch, one=1.0, two=0.5)
    train(recipe("--cpu_threads=null"))
    assert torch.get_num_threads() == 2
    assert (
        "switched from 1 to 2 threads, 2.0 times as fast in a short test: cores that were busy"
        in capsys.readouterr().out
    )


def test_explicit_number_of_threads_is_kept_without_a_measurement(recipe, monkeypatch, two_cores):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(threads, "measure", None)
    train(recipe("--cpu_threads=2", "--max_steps=2"))
    assert torch.get_num_threads() == 2


@pytest.fixture
def watch():
    """The choice of threads for a run on two cores, with the clock `watch.time`."""
    clock = types.SimpleNamespace(now=0.0)
    watch = AdaptiveThreads(types.SimpleNamespace(num_processes=1), 2, None, lambda: clock.now)
    watch.time = clock
    torch.set_num_threads(2)
    return watch


def at(watch, now, tokens):
    watch.tokens, watch.time.now = watch.tokens + tokens, now
    return watch.is_due()


def test_slower_steps_trigger_a_measurement(watch):
    assert not at(watch, 4.0, 400)  # too short to tell
    assert not at(watch, 10.0, 600)  # 100 tokens a second
    assert not at(watch, 20.0, 600)  # 60
    assert at(watch, 30.0, 400)  # 40
    assert not at(watch, 40.0, 400)  # too soon after the last one
    assert at(watch, 60.0, 800)


def test_measurements_are_repeated_while_there_are_fewer_threads_than_cores(watch):
    torch.set_num_threads(1)
    assert [at(watch, now, 1000) for now in (10.0, 20.0, 30.0, 40.0, 50.0)] == [False, False, True, False, False]


def test_run_adapts_its_number_of_threads_during_training(recipe, monkeypatch, capsys, two_cores):
    times = {1: 1.0, 2: 0.5}
    monkeypatch.setattr(threads, "measure", lambda numbers, work: {number: times[number] for number in numbers})
    monkeypatch.setattr(AdaptiveThreads, "is_due", lambda self: times.update({2: 5.0}) is None)
    folder = train(recipe("--cpu_threads=null", "--save_steps=6")).folder
    assert "switched from 2 to 1 thread, 5.0 times as fast in a short test" in capsys.readouterr().out
    stored = [load_checkpoint(path).progress.threads for path in checkpoint_folders(folder / "checkpoints")]
    assert stored == [2, 1]


def test_run_uses_the_cores_that_its_processes_ask_for_or_all(monkeypatch):
    monkeypatch.setattr(threads_module, "available_cores", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    assert (cores_of_run(None, 2), cores_of_run(1, 2), cores_of_run(3, 1), cores_of_run(9, 1)) == (8, 2, 3, 8)
