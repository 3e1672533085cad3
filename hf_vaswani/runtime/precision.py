"""The precisions of forward and backward passes: what a device supports, and how fast bf16 is on this processor.

Weights, gradients and the optimizer's state are always in fp32.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import check_cuda_fp8_capability, is_bf16_available, is_fp8_available

from ..core.modeling_vaswani import VaswaniForConditionalGeneration

# A trial: layers per stack, tokens per sentence, maximum tokens per batch, and maximum rounds. A batch is large enough
# once its passes in both precisions take `LONG` seconds together; no round begins after `SECONDS` seconds of trial.
LAYERS, LENGTH, TOKENS, ROUNDS, LONG, SECONDS = 2, 24, 1024, 9, 0.5, 3.0


def possible_precisions(device: torch.device) -> list[str]:
    """The values of `mixed_precision` that a device and its torch support."""
    has_bf16 = device.type == "cpu" or is_bf16_available(ignore_tpu=True)
    has_fp8 = device.type == "cuda" and is_fp8_available() and check_cuda_fp8_capability()
    return ["no", *["bf16"] * has_bf16, "fp16", *["fp8"] * has_fp8]


def has_native_bf16(device: torch.device) -> bool:
    """Whether a device is a GPU with native bf16, which torch otherwise emulates slowly."""
    return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)


def use_bf16(accelerator: Accelerator) -> None:
    """Have an Accelerator on a CPU, made without mixed precision, prepare models for bf16."""
    accelerator.state._mixed_precision = "bf16"
    accelerator.native_amp = True


def bf16_speedup(model: VaswaniForConditionalGeneration, max_tokens: int) -> float:
    """How many times as fast in bf16 as in fp32 this processor trains a model, with the current number of threads.

    Forward and backward passes in both precisions are timed in turn, which takes some seconds for a large model and a
    fraction of a second for a small one. The model and the random state are left unchanged.

    Args:
        model: on the CPU, without gradients; only its first layers are timed.
        max_tokens: maximum number of tokens of a batch in training.
    """
    forwards = [model.forward, torch.autocast("cpu", torch.bfloat16)(model.forward)]
    began, sentences, most = time.perf_counter(), 1, max(min(max_tokens, TOKENS) // LENGTH, 1)
    with torch.random.fork_rng(devices=[]), shortened(model):
        # Larger and larger batches warm up the processor, and none takes unexpectedly long.
        while sum(seconds := [pass_seconds(model, forward, sentences) for forward in forwards]) < LONG:
            if sentences == most:
                break
            sentences = min(4 * sentences, most)
        rounds = [seconds]
        while len(rounds) < ROUNDS and time.perf_counter() - began < SECONDS:
            rounds.append([pass_seconds(model, forward, sentences) for forward in forwards])
    # The shortest: other processes can only make a pass slower.
    fp32, bf16 = map(min, zip(*rounds))
    return fp32 / bf16


@contextmanager
def shortened(model: VaswaniForConditionalGeneration) -> Iterator[None]:
    """Put a model in train mode with only its first layers, and without LayerDrop, while the block runs."""
    stacks, is_training = [model.get_encoder(), model.get_decoder()], model.training
    before = [(stack.layers, stack.layerdrop) for stack in stacks]
    model.train()
    try:
        for stack in stacks:
            stack.layers, stack.layerdrop = stack.layers[:LAYERS], 0.0
        yield
    finally:
        for stack, (layers, layerdrop) in zip(stacks, before):
            stack.layers, stack.layerdrop = layers, layerdrop
        model.zero_grad()
        model.train(is_training)


def pass_seconds(model: VaswaniForConditionalGeneration, forward: Callable[..., Any], sentences: int) -> float:
    """The seconds that a forward and a backward pass with random tokens take."""
    config = model.config
    length = min(LENGTH, config.longest_sequence or LENGTH)
    source = torch.randint(config.vocab_size, (sentences, length))
    labels = torch.randint(config.decoder_vocab_size, (sentences, length))
    inputs = {"input_ids": source, "attention_mask": torch.ones_like(source), "labels": labels}
    model.zero_grad()
    began = time.perf_counter()
    loss = forward(**inputs, num_items_in_batch=float(labels.numel())).loss
    if loss.requires_grad:  # the first layers may be frozen, and everything else too
        loss.backward()
    return time.perf_counter() - began
