"""Whether a model that training starts from fits into memory with everything that training adds to it."""

import torch
from transformers import AutoModelForSeq2SeqLM, PreTrainedConfig, PreTrainedModel

from ...models.model_files import FLOAT_BYTES, memory_errors
from ...runtime.machine import free_memory
from ..optimization.step_batches import CPU_PASS_TOKENS
from ..recipe.recipe import Recipe

# What each optimizer keeps of each parameter at least, in numbers of 32 bits.
MOMENTS = {"adam": 2, "adam_8bit": 0.5, "muon": 1}


def weight_memory_errors(source: str, config: PreTrainedConfig) -> list[str]:
    """An error if the weights of a model do not fit into free memory; none of them is read."""
    with torch.device("meta"):
        count = AutoModelForSeq2SeqLM.from_config(config).num_parameters()
    return [f"training.start_from={source}: {error}" for error in memory_errors(count)]


def training_memory_errors(recipe: Recipe, model: PreTrainedModel, device: torch.device, is_mixed: bool) -> list[str]:
    """An error if a step does not fit into a device's free memory: gradients, optimizer, averages, and logits.

    This is less than a step takes: the activations of the layers are not counted.

    Args:
        model: on the CPU; what is frozen is not trained.
        is_mixed: whether logits are computed in 16 bits.
    """
    training = recipe.training
    trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    copies = 1 + MOMENTS[training.optim] + bool(training.ema_decay)
    tokens = min(training.max_tokens, CPU_PASS_TOKENS) if device.type == "cpu" else training.max_tokens
    # The logits and their gradient.
    logits = 2 * tokens * model.get_output_embeddings().weight.shape[0] * (2 if is_mixed else FLOAT_BYTES)
    need = trained * copies * FLOAT_BYTES + logits
    free = free_memory()
    if device.type == "cuda":
        need += model.num_parameters() * FLOAT_BYTES
        free = torch.cuda.mem_get_info(device)[0]
    if need <= free:
        return []
    remedies = ["lower training.max_tokens"]
    if training.optim == "adam":
        remedies.insert(0, "keep Adam's means in 8 bits (training.optim: adam_8bit)")
    if not recipe.peft.is_used:
        remedies = ["train an adapter (peft.r: 8)", "freeze a part (training.freeze)", *remedies]
    return [
        f"training.start_from={training.start_from}: to train {trained:,} of {model.num_parameters():,} parameters "
        f"takes at least {gigabytes(need)} more, but {gigabytes(free)} are free: {', or '.join(remedies)}"
    ]


def gigabytes(size: float) -> str:
    """A number of bytes in words."""
    return f"{size / 1e9:,.1f} GB"
