"""How large a model is, and whether it can fit into this machine's memory, told before it is built."""

import copy
import math
from contextlib import suppress
from pathlib import Path

import torch

from .configuration_vaswani import VaswaniConfig
from .modeling_vaswani import VaswaniForConditionalGeneration

# Bytes for each parameter: in float32, and with its gradient and Adam's two means.
WEIGHTS, TRAINING = 4, 16
MEMORY_FILE = Path("/proc/meminfo")
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def parameter_count(config: VaswaniConfig) -> int:
    """The parameters of a model, tied ones once, without building its layers."""
    small = copy.deepcopy(config)
    small.encoder_layers = small.decoder_layers = 1
    with torch.device("meta"):
        model = VaswaniForConditionalGeneration(small)
    stacks = [(model.get_encoder(), config.encoder_layers), (model.get_decoder(), config.decoder_layers)]
    more = sum((layers - 1) * sum(p.numel() for p in stack.layers[0].parameters()) for stack, layers in stacks)
    return model.num_parameters() + more


def memory_errors(config: VaswaniConfig, bytes_per_parameter: int) -> list[str]:
    """That a model cannot fit into the memory that is free; empty where it can."""
    count, free = parameter_count(config), free_memory()
    if count * bytes_per_parameter <= free:
        return []
    need = f"{count * bytes_per_parameter / 1e9:,.0f} GB"
    what = "to train" if bytes_per_parameter == TRAINING else "for its weights"
    return [f"the model has {count:,} parameters and needs {need} {what}, but {free / 1e9:,.1f} GB are free"]


def free_memory() -> float:
    """Bytes that this process can still take, swap included; infinite where the system does not say."""
    limits = [math.inf]
    with suppress(OSError):
        values = dict(line.split(":") for line in MEMORY_FILE.read_text().splitlines())
        limits.append(sum(int(values[name].split()[0]) * 1024 for name in ("MemAvailable", "SwapFree")))
    with suppress(OSError, ValueError):
        limits.append(int(CGROUP_LIMIT.read_text()))
    return min(limits)
