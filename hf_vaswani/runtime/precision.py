"""The precisions of forward and backward passes: what a device can do, and how fast bf16 is on this processor.

Weights, gradients and the optimizer's state are in fp32 always.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import check_cuda_fp8_capability, convert_outputs_to_fp32, is_bf16_available, is_fp8_available

from ..core.modeling_vaswani import VaswaniForConditionalGeneration

# A trial: layers of each stack, tokens of a sentence, most tokens of a batch and most rounds. A batch is large enough
# once its two passes take as many seconds, and no round begins after as many of the whole trial.
LAYERS, LENGTH, TOKENS, ROUNDS, LONG, SECONDS = 2, 24, 1024, 9, 0.5, 3.0


def possible_precisions(device: torch.device) -> list[str]:
    """The values of `mixed_precision` that a device and its torch can do."""
    has_bf16 = device.type == "cpu" or is_bf16_available(ignore_tpu=True)
    has_fp8 = device.type == "cuda" and is_fp8_available() and check_cuda_fp8_capability()
    return ["no", *["bf16"] * has_bf16, "fp16", *["fp8"] * has_fp8]


def has_native_bf16(device: torch.device) -> bool:
    """Whether a device is a GPU that computes in bf16 itself, which torch otherwise emulates, slowly."""
    return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)


def use_bf16(accelerator: Accelerator) -> None:
    """Have an Accelerator on a CPU that was made without mixed precision prepare models for bf16."""
    accelerator.state._mixed_precision = "bf16"
    accelerator.native_amp = True


def bf16_speedup(model: VaswaniForConditionalGeneration, max_tokens: int) -> float:
    """How many times as fast as in fp32 this processor trains a model in bf16, with the current number of threads.

    Forward and backward passes of both kinds are timed in turns: some seconds with a large model, a fraction of one
    with a small model. The model and the random states are left as they are.

    Args:
        model: on the CPU, without gradients; only its first layers are tried.
        max_tokens: of a batch in training.
    """
    # The second as Accelerate prepares a model.
    forwards = [model.forward, convert_outputs_to_fp32(torch.autocast("cpu", torch.bfloat16)(model.forward))]
    began, sentences, most = time.perf_counter(), 1, max(min(max_tokens, TOKENS) // LENGTH, 1)
    with torch.random.fork_rng(devices=[]), shortened(model):
        # Larger and larger batches: they warm up, and none takes long unexpectedly.
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
    """Have a model train with its first layers alone while the block runs, all of them in each pass."""
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
    """Seconds of a forward and backward pass with random tokens."""
    config = model.config
    length = min(LENGTH, config.longest_sequence or LENGTH)
    source = torch.randint(config.vocab_size, (sentences, length))
    labels = torch.randint(config.decoder_vocab_size, (sentences, length))
    inputs = {"input_ids": source, "attention_mask": torch.ones_like(source), "labels": labels}
    model.zero_grad()
    began = time.perf_counter()
    loss = forward(**inputs, num_items_in_batch=float(labels.numel())).loss
    if loss.requires_grad:  # the first layers may be frozen, with all else
        loss.backward()
    return time.perf_counter() - began
