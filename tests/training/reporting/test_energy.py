"""Energy measured by a fake codecarbon: what is stored, across resumed runs, and that codecarbon is optional."""

import json
import sys
import types

import pytest

from hf_vaswani.training.train import train

KWH = 3.6e6


@pytest.fixture
def codecarbon(monkeypatch):
    """A fake of the package that adds 1 kWh for CPUs and 0.5 kWh for memory at each reading; returns its trackers."""
    trackers = []

    class OfflineEmissionsTracker:
        def __init__(self, country_iso_code, output_methods, allow_multiple_runs, log_level, output_handlers):
            assert output_methods == []  # no file
            self.handlers, self.readings, self.is_running = output_handlers, 0, False
            trackers.append(self)

        def start(self):
            self.is_running = True

        def flush(self):
            self.readings += 1
            total = types.SimpleNamespace(
                cpu_energy=float(self.readings), gpu_energy=0.0, ram_energy=self.readings / 2, duration=60.0
            )
            for handler in self.handlers:
                handler.out(total, total)

        def stop(self):
            self.is_running = False

    monkeypatch.setitem(
        sys.modules, "codecarbon", types.SimpleNamespace(OfflineEmissionsTracker=OfflineEmissionsTracker)
    )
    return trackers


def energy_of(folder, step):
    return json.loads((folder / "checkpoints" / f"update-{step:08d}" / "progress.json").read_text())["energy"]


def test_energy_is_stored_with_each_checkpoint_and_reported_in_the_card(recipe, codecarbon):
    folder = train(recipe()).folder
    # No GPU has used any.
    assert energy_of(folder, 8) == {"cpu": [2 * KWH, 60.0], "ram": [KWH, 60.0]}
    results = json.loads((folder / "results.json").read_text())
    assert results["energy"] == energy_of(folder, 12) == {"cpu": [3 * KWH, 60.0], "ram": [1.5 * KWH, 60.0]}
    assert "Energy: 3 kWh (CPUs) and 1.5 kWh (memory) of the whole machine" in (folder / "README.md").read_text()
    [tracker] = codecarbon
    assert not tracker.is_running


@pytest.mark.slow
def test_energy_and_measured_seconds_are_summed_over_resumed_runs(recipe, codecarbon):
    train(recipe("--max_steps=4"))
    folder = train(recipe()).folder
    assert energy_of(folder, 12) == {"cpu": [3 * KWH, 120.0], "ram": [1.5 * KWH, 120.0]}


def test_tracker_is_stopped_if_an_error_ends_the_run(recipe, codecarbon, monkeypatch):
    def fail(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("hf_vaswani.training.loop.optimizer_step", fail)
    with pytest.raises(KeyboardInterrupt):
        train(recipe())
    [tracker] = codecarbon
    assert not tracker.is_running


def test_without_the_package_nothing_is_measured(recipe, monkeypatch):
    monkeypatch.setitem(sys.modules, "codecarbon", None)
    folder = train(recipe("--max_steps=2")).folder
    assert json.loads((folder / "results.json").read_text())["energy"] == {}
    assert "Energy: not measured" in (folder / "README.md").read_text()
