"""What a run is trained on: processors, free memory, precision, versions. Never the machine's name."""

import ctypes
import math
import os
import platform
import sys
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import torch
import transformers
from accelerate import Accelerator

from ..errors import counted
from .cores import available_cores

CPU_FILE, MEMORY_FILE, CGROUP = Path("/proc/cpuinfo"), Path("/proc/meminfo"), Path("/sys/fs/cgroup")
# From glibc's malloc.h.
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4
LARGEST_INT = 2**31 - 1


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
    return {"hf_vaswani": own, "torch": torch.__version__, "transformers": transformers.__version__}


def keep_freed_memory() -> bool:
    """Keep freed memory in this process; do nothing and return false if malloc is not glibc's.

    glibc gives large tensors, such as the logits, pages of their own and returns these to the system when they are
    freed. In each pass, the system then zeroes the same pages again, at a page fault each: an eighth of the time of
    training a small model. In return, the process stays as large as it once was, and grows further by fragmentation.
    """
    if sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"):
        return False
    mallopt = ctypes.CDLL(None).mallopt
    settings = {M_MMAP_MAX: 0, M_TRIM_THRESHOLD: LARGEST_INT, M_TOP_PAD: 2**26}
    return all([mallopt(name, value) for name, value in settings.items()])


def free_memory() -> float:
    """Bytes of free memory, swap included, but at most what the cgroup has left; infinite if the system does not say.

    Page cache that the cgroup can give back counts as free, as it does in the system's own figure.
    """
    limits = [math.inf]
    with suppress(OSError):
        values = dict(line.split(":") for line in MEMORY_FILE.read_text().splitlines())
        limits.append(sum(int(values[name].split()[0]) * 1024 for name in ("MemAvailable", "SwapFree")))
    with suppress(OSError, ValueError):
        limit, used = (int((CGROUP / name).read_text()) for name in ("memory.max", "memory.current"))
        pages = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
        limits.append(max(0, limit - used + int(pages["inactive_file"])))
    return min(limits)
