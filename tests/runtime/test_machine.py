import types
from importlib import metadata

import torch

from hf_vaswani.runtime.machine import cpu_name, describe_machine, precision, versions


def accelerator(device="cpu", processes=1, mixed_precision="no"):
    return types.SimpleNamespace(device=torch.device(device), num_processes=processes, mixed_precision=mixed_precision)


def test_cpu_is_named_by_its_model(tmp_path):
    file = tmp_path / "cpuinfo"
    file.write_text("processor\t: 0\nmodel\t\t: 85\nmodel name\t: Some  CPU @ 2.00GHz\n\nmodel name\t: Other\n")
    assert cpu_name(file) == "Some CPU @ 2.00GHz"


def test_cpu_without_a_model_is_named_by_its_architecture(tmp_path):
    (tmp_path / "cpuinfo").write_text("CPU implementer\t: 0x41\n")
    assert cpu_name(tmp_path / "cpuinfo") == cpu_name(tmp_path / "absent") != ""


def test_cores_are_those_that_training_uses(monkeypatch):
    monkeypatch.setattr("hf_vaswani.runtime.machine.available_cores", lambda: 8)
    monkeypatch.setattr("hf_vaswani.runtime.machine.cpu_name", lambda: "X")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert describe_machine(accelerator()) == "X, 3 cores"
    assert describe_machine(accelerator(processes=4)) == "X, 8 cores"


def test_gpus_are_counted_over_all_machines(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA X")
    assert describe_machine(accelerator("cuda", 4)) == "4 × NVIDIA X"
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert describe_machine(accelerator("cuda", 4)) == "4 × NVIDIA X, on 2 machines"


def test_precision_is_named():
    assert precision(accelerator()) == "fp32"
    assert precision(accelerator(mixed_precision="bf16")) == "bf16, mixed"


def test_checkout_that_is_not_installed_has_no_version(monkeypatch):
    def not_found(name):
        raise metadata.PackageNotFoundError(name)

    assert versions()["hf_vaswani"] == metadata.version("hf-vaswani")
    monkeypatch.setattr(metadata, "version", not_found)
    assert versions()["hf_vaswani"] == "not installed"
