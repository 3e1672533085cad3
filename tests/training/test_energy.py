"""Energy counters: what is read, what is left out, and that a counter's new beginning is no loss."""

import sys
import time
import types

import pytest
import torch

from hf_vaswani.runtime import energy
from hf_vaswani.runtime.energy import Counter, EnergyMeter, cpu_counters, energy_counters, nvidia_counters


@pytest.fixture
def powercap(tmp_path):
    """Two packages with their parts, the platform, and one package once more under another driver."""

    def zone(path, name, microjoules, highest=1000):
        folder = tmp_path / path
        folder.mkdir(parents=True)
        for file, value in (("name", name), ("energy_uj", microjoules), ("max_energy_range_uj", highest)):
            (folder / file).write_text(f"{value}\n")

    zone("intel-rapl:0", "package-0", 100)
    zone("intel-rapl:0:0", "core", 50)
    zone("intel-rapl:0:1", "dram", 30)
    zone("intel-rapl:1", "package-1", 7)
    zone("intel-rapl:2", "psys", 900)
    zone("intel-rapl-mmio:0", "package-0", 100)
    return tmp_path


def count(powercap, package, microjoules):
    (powercap / f"intel-rapl:{package}" / "energy_uj").write_text(f"{microjoules}\n")


def test_packages_alone_are_counted_each_once(powercap):
    counters = cpu_counters(powercap)
    assert [counter.read() for counter in counters] == [100e-6, 7e-6]
    assert [counter.range for counter in counters] == [1e-3, 1e-3]


def test_joules_of_all_packages_are_summed_over_new_beginnings(powercap):
    with EnergyMeter(cpu_counters(powercap), {}) as meter:
        count(powercap, 0, 990)
        assert meter.total()["cpu"][0] == pytest.approx(890e-6)
        count(powercap, 0, 40)  # 1000 is where it begins anew
        count(powercap, 1, 17)
        assert meter.total()["cpu"][0] == pytest.approx((890 + 50 + 10) * 1e-6)


def test_counter_without_a_range_that_begins_anew_takes_no_energy_away():
    readings = iter([100.0, 130.0, 5.0, 15.0])
    with EnergyMeter([Counter("gpu", lambda: next(readings))], {}) as meter:
        assert [meter.total()["gpu"][0] for _ in range(3)] == [30.0, 30.0, 40.0]


def test_counter_that_begins_anew_again_and_again_is_followed_without_being_asked(monkeypatch):
    monkeypatch.setattr(energy, "INTERVAL_SECONDS", 0.001)
    reads = []

    def read():
        reads.append(None)
        return 4 * len(reads) % 10

    with EnergyMeter([Counter("cpu", read, range=10)], {}) as meter:
        while len(reads) < 50:
            time.sleep(0.001)
        joules, _ = meter.total()["cpu"]
    assert joules >= 4 * 49 and joules % 4 == 0


def test_energy_is_summed_over_all_runs_with_the_seconds_in_which_it_was_measured(powercap):
    with EnergyMeter(cpu_counters(powercap), {"cpu": [2.0, 60.0], "gpu": [5.0, 60.0]}) as meter:
        count(powercap, 0, 101)
        total = meter.total()
    assert total["cpu"][0] == pytest.approx(2.0 + 1e-6)
    assert 60.0 < total["cpu"][1] < 61.0
    assert total["gpu"] == [5.0, 60.0]


@pytest.mark.parametrize("damage", ["energy_uj", "max_energy_range_uj", "name"])
def test_where_one_package_cannot_be_read_none_is_counted(powercap, damage):
    (powercap / "intel-rapl:1" / damage).unlink()
    (powercap / "intel-rapl:1" / damage).mkdir()  # unreadable for root, too
    assert cpu_counters(powercap) == []


def test_counter_that_fails_later_leaves_only_what_was_measured_before(powercap):
    with EnergyMeter(cpu_counters(powercap), {"cpu": [2.0, 60.0]}) as meter:
        (powercap / "intel-rapl:1" / "energy_uj").write_text("?")
        assert meter.total() == {"cpu": [2.0, 60.0]}
        count(powercap, 1, 20)
        assert meter.total() == {"cpu": [2.0, 60.0]}


def test_machine_without_counters_measures_nothing(tmp_path):
    assert energy_counters(torch.device("cpu"), 1, tmp_path / "absent") == []
    with EnergyMeter([], {}) as meter:
        assert meter.total() == {}


def nvml(millijoules):
    """A stand-in for pynvml, whose GPUs have counted so much, by UUID."""
    return types.SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID=lambda uuid: millijoules[uuid],
        nvmlDeviceGetTotalEnergyConsumption=lambda handle: handle[0],
    )


def test_gpus_of_the_training_are_counted_by_their_uuids(monkeypatch):
    gpus = {"GPU-a": [1000], "GPU-b": [2000], "GPU-c": [4000]}
    monkeypatch.setitem(sys.modules, "pynvml", nvml(gpus))
    visible = ["c", "a"]
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda n: types.SimpleNamespace(uuid=visible[n]))
    with EnergyMeter(nvidia_counters(2), {}) as meter:
        gpus["GPU-a"][0], gpus["GPU-b"][0], gpus["GPU-c"][0] = 1500, 9999, 5000
        assert meter.total()["gpu"][0] == pytest.approx(1.5)


def test_gpu_that_is_not_counted_is_no_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", nvml({}))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda n: types.SimpleNamespace(uuid="a"))
    assert nvidia_counters(1) == []
    monkeypatch.setitem(sys.modules, "pynvml", None)  # not installed
    assert nvidia_counters(1) == []
