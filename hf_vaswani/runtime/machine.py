"""Describes what a run is trained on: processors, precision, versions. Never the machine's name."""

import math
import os
import platform
from importlib import metadata
from pathlib import Path

import torch
import transformers
from accelerate import Accelerator

from ..errors import counted
from .cores import available_cores

CPU_FILE = Path("/proc/cpuinfo")


def processes_here(processes: int) -> int:
    """How many of a run's processes are on this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", processes))


def describe_machine(accelerator: Accelerator) -> str:
    """The processors that a run uses, in words: "2 × NVIDIA H200", "AMD EPYC, 2 cores"."""
    processes, here = accelerator.num_processes, processes_here(accelerator.num_processes)
    machines = math.ceil(processes / here)
    if accelerator.device.type == "cpu":
        cores = min(torch.get_num_threads() * here, available_cores())
        words = f"{cpu_name()}, {counted(cores, 'core')}"
    elif accelerator.device.type == "cuda":
        words = f"{processes} × {torch.cuda.get_device_name(accelerator.device)}"
    else:
        words = f"{processes} × {accelerator.device.type} of {cpu_name()}"
    return words + (f", on {machines} machines" if machines > 1 else "")


def cpu_name(cpu_file: Path = CPU_FILE) -> str:
    """The processor's model if the system reports it, or else its architecture."""
    if cpu_file.exists():
        for line in cpu_file.read_text(errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name" and value.strip():
                return " ".join(value.split())
    return platform.machine() or "CPU"


def precision(accelerator: Accelerator) -> str:
    """The precision of forward and backward passes; weights are always in fp32."""
    return "fp32" if accelerator.mixed_precision == "no" else f"{accelerator.mixed_precision}, mixed"


def versions() -> dict[str, str]:
    """Versions of the packages that the result depends on."""
    try:
        own = metadata.version("hf-vaswani")
    except metadata.PackageNotFoundError:  # run from a checkout
        own = "not installed"
    return {
        "hf_vaswani": own,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
