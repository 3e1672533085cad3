"""Trains a recipe with FSDP2 on CPUs, which Accelerate supports only on GPUs. A test runs it in two processes."""

import sys

from accelerate import Accelerator, DistributedType, FullyShardedDataParallelPlugin, PartialState

from hf_vaswani.training import train as train_module
from hf_vaswani.training.recipe.recipe import load_recipe
from hf_vaswani.training.train import train


def sharded(recipe) -> Accelerator:
    accelerator = original(recipe)
    # The rest is Accelerate's own code path.
    for state in (PartialState(), accelerator.state):
        state.distributed_type = DistributedType.FSDP
    accelerator.state.fsdp_plugin = plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2, auto_wrap_policy="transformer_based_wrap", cpu_ram_efficient_loading=False
    )
    if accelerator.mixed_precision != "no":
        plugin.set_mixed_precision(accelerator.mixed_precision)
    return accelerator


original = train_module.make_accelerator
train_module.make_accelerator = sharded
train(load_recipe(sys.argv[1], sys.argv[2:]))
