"""Lets the same code train models whose parameters are sharded over processes (FSDP2) and models that are not.

A sharded parameter (fully sharded data parallelism) is a `DTensor`. The functions here leave plain tensors and models
as they are, so that the loop needs no special cases. All processes must call them together.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from accelerate import Accelerator
from torch import nn
from torch.distributed.tensor import DTensor, distribute_tensor

# The state dict of an optimizer or loss scaler.
StateDict = dict[str, Any]


def full_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """The full tensor, gathered from all its shards, in every process."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def shard_like(value: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """This process's shard of a full tensor, sharded in the same way as `like`."""
    if not isinstance(like, DTensor) or isinstance(value, DTensor):
        return value
    return distribute_tensor(value.to(like.device), like.device_mesh, like.placements)


def optimizer_state(optimizer) -> StateDict:
    """An optimizer's state dict, with full tensors."""
    state = optimizer.state_dict()
    entries = {number: {name: full_tensor(v) for name, v in entry.items()} for number, entry in _entries(state)}
    return {**state, "state": entries}


def set_optimizer_state(optimizer, state: StateDict) -> None:
    """Load a state dict of full tensors into an optimizer; raises a `ValueError` for the state of another one."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]

    def sharded(value: torch.Tensor, like: nn.Parameter) -> torch.Tensor:
        # Adam's step count is a single number, not one per weight.
        if value.shape not in (like.shape, ()):
            raise ValueError("another shape")
        return shard_like(value, like) if value.shape == like.shape else value

    try:
        for own, stored in zip(optimizer.param_groups, state["param_groups"], strict=True):
            # Other releases of PyTorch may have more settings, or fewer.
            if not (own.keys() <= stored.keys() or stored.keys() <= own.keys()):
                raise ValueError("other settings")
        entries = {
            number: {name: sharded(value, parameters[number]) for name, value in entry.items()}
            for number, entry in _entries(state)
        }
        optimizer.load_state_dict({**state, "state": entries})
    except (ValueError, TypeError, AttributeError, LookupError):
        raise ValueError("it has the state of another optimizer") from None


def _entries(state: StateDict):
    return state["state"].items()


def shard_tied_embeddings(model: nn.Module, accelerator: Accelerator) -> None:
    """Shard modules that share a matrix as one group, before Accelerate shards the rest.

    Accelerate groups only the input embeddings and the output projection, and would separate the encoder and decoder
    embeddings from them. Must be called before the optimizer is made; does nothing unless the launcher asks for FSDP2.
    """
    if not accelerator.is_fsdp2:
        return
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    plugin, mesh = accelerator.state.fsdp_plugin, accelerator.torch_device_mesh
    # Every process builds the same model itself; loading it in one process only would undo the grouping.
    plugin.cpu_ram_efficient_loading = False
    policy = plugin.mixed_precision_policy or MixedPrecisionPolicy()
    # Accelerate would keep the loss, and sums of gradients, in the weights' 16 bits; DDP keeps them in 32.
    plugin.mixed_precision_policy = policy = replace(policy, output_dtype=None, reduce_dtype=torch.float32)
    groups: dict[nn.Parameter, list[nn.Module]] = {}
    for module in model.modules():
        if isinstance(module, nn.Embedding | nn.Linear):
            groups.setdefault(module.weight, []).append(module)
    for modules in groups.values():
        if len(modules) > 1:
            fully_shard(
                modules,
                mesh=None if mesh is None else mesh[tuple(accelerator.parallelism_config.fsdp_dim_names)],
                reshard_after_forward=False,
                mp_policy=policy,
                offload_policy=plugin.cpu_offload,
            )


@contextmanager
def unsharded(model: nn.Module) -> Iterator[None]:
    """Gather all weights in every process while the block runs, so that each can compute on its own."""
    from torch.distributed.fsdp import FSDPModule

    shards = [module for module in model.modules() if isinstance(module, FSDPModule)]
    for module in shards:
        module.set_reshard_after_forward(False, recurse=False)
        module.unshard()
    try:
        yield
    finally:
        for module in shards:
            module.reshard()
            module.set_reshard_after_forward(module is not model, recurse=False)
