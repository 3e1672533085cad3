"""How large a model is, and whether it fits into this machine's memory, before it is built."""

import copy
import math
from contextlib import suppress
from pathlib import Path

import torch

from ..core.configuration_vaswani import VaswaniConfig
from ..core.modeling_vaswani import VaswaniForConditionalGeneration

# Bytes per parameter: in float32, and with its gradient and Adam's two moments.
WEIGHTS, TRAINING = 4, 16
MEMORY_FILE = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")


def parameter_count(config: VaswaniConfig) -> int:
    """The number of parameters, counting tied ones once, without building all layers."""
    small = copy.deepcopy(config)
    small.encoder_layers = small.decoder_layers = 1
    with torch.device("meta"):
        model = VaswaniForConditionalGeneration(small)
    stacks = [(model.get_encoder(), config.encoder_layers), (model.get_decoder(), config.decoder_layers)]
    more = sum((layers - 1) * sum(p.numel() for p in stack.layers[0].parameters()) for stack, layers in stacks)
    return model.num_parameters() + more


def memory_errors(config: VaswaniConfig, bytes_per_parameter: int) -> list[str]:
    """An error if a model does not fit into free memory; empty if it does."""
    count, free = parameter_count(config), free_memory()
    if count * bytes_per_parameter <= free:
        return []
    need = f"{count * bytes_per_parameter / 1e9:,.0f} GB"
    what = "to train" if bytes_per_parameter == TRAINING else "for its weights"
    return [f"the model has {count:,} parameters and needs {need} {what}, but {free / 1e9:,.1f} GB are free"]


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
