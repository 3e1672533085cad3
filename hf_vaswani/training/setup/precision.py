"""The precision of a run's forward and backward passes: the one requested, that of the run being resumed, or bf16 if
it is clearly faster.

Weights, gradients and the optimizer's state are always in fp32. The speedup measured on a processor is cached with the
prepared text, so that a recipe gets the same precision each time on the same machine.
"""

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import check_cuda_fp8_capability, is_bf16_available, is_fp8_available

from ...core.modeling_vaswani import VaswaniForConditionalGeneration
from ...data.cache import cache_folder, read_note, write_note
from ...errors import InputError
from ...models.families import family_of
from ...runtime.machine import cpu_name
from ...runtime.processes import on_main_process, print_main
from ...runtime.threads import feed_forward, requested_threads, serving_number, threads_set
from ..checkpoints.artifacts import BEST, CHECKPOINTS, RECIPE_FILE, read_stored
from ..checkpoints.checkpoint import is_checkpoint_name
from ..recipe.recipe import Recipe

AUTO = "auto"
# The speedup over fp32 from which bf16 is used.
FASTER = 1.15
SPEEDUPS_FILE = "bf16_speedups.json"
# The fields of the config that affect the measurement.
SIZES = (
    "vocab_size", "decoder_vocab_size", "d_model", "encoder_ffn_dim", "decoder_ffn_dim", "encoder_attention_heads",
    "decoder_attention_heads"
)  # fmt: skip

# A trial: layers per stack, tokens per sentence, maximum tokens per batch, and maximum rounds. A batch is large enough
# once its passes in both precisions take `LONG` seconds together; no round begins after `SECONDS` seconds of trial.
LAYERS, LENGTH, TOKENS, ROUNDS, LONG, SECONDS = 2, 24, 1024, 9, 0.5, 3.0


def known_precision(recipe: Recipe) -> str | None:
    """The precision that the recipe or the launcher asks for, or else that of the run in the output folder; `None` if
    it is still to be determined."""
    requested = recipe.training.mixed_precision
    if requested != AUTO:
        return requested
    # Accelerate's launcher sets "no" even if nobody requested it.
    launched = os.environ.get("ACCELERATE_MIXED_PRECISION", "no").lower()
    return launched if launched != "no" else _stored_precision(recipe)


def _stored_precision(recipe: Recipe) -> str | None:
    folder = Path(recipe.training.output_dir)
    if recipe.training.overwrite:
        return None
    with suppress(InputError, OSError, ValueError):  # the checks report these
        # Without weights there is nothing to resume; weights whose replacement was interrupted count, too.
        weights = (path for name in (CHECKPOINTS, BEST) for path in (folder / name).glob("update-*"))
        if any(is_checkpoint_name(path.name.removesuffix(".old")) for path in weights):
            stored = read_stored(folder / RECIPE_FILE)
            precision = {**stored.get("training", {}), **stored.get("launched", {})}.get("mixed_precision", AUTO)
            return "no" if precision == AUTO else str(precision)
    return None


def precision_to_begin_with(recipe: Recipe, device: torch.device) -> str:
    """The precision with which to create an Accelerator for a device.

    It is "no" on a CPU if it is still to be determined, by [`choose_precision`], and on any device for an unsupported
    precision, which [`precision_errors`] reports.
    """
    precision = known_precision(recipe) or ("bf16" if has_native_bf16(device) else "no")
    return precision if precision in possible_precisions(device) else "no"


def precision_errors(recipe: Recipe, device: torch.device) -> list[str]:
    """An error if the device does not support the requested precision."""
    precision, possible = known_precision(recipe), possible_precisions(device)
    if precision is None or precision in possible:
        return []
    return [f"mixed precision {precision} is not supported on this {device.type}: use {', '.join([AUTO, *possible])}"]


def choose_precision(recipe: Recipe, processes: Accelerator, model: VaswaniForConditionalGeneration) -> None:
    """Determine the precision, the same in all processes, unless it is known already, and print what was chosen.

    Args:
        model: on the CPU, not yet prepared by Accelerate; it is left as it is.
    """

    def is_bf16_found() -> bool:
        if known_precision(recipe) is not None or (processes.device.type == "cpu" and family_of(model.config)):
            return False
        if processes.device.type != "cpu":
            if processes.mixed_precision == "bf16":
                print_main("mixed precision bf16, which this GPU supports; set --mixed_precision to change it")
            return False
        speedup = known_speedup(recipe, processes.num_processes, model)
        if speedup < FASTER:
            return False
        print_main(
            f"mixed precision bf16, measured to be {speedup:.1f} times as fast as fp32 here; set "
            "--mixed_precision to fix it"
        )
        return True

    if on_main_process(processes, is_bf16_found):
        use_bf16(processes)


def known_speedup(recipe: Recipe, processes: int, model: VaswaniForConditionalGeneration) -> float:
    """[`bf16_speedup`], measured once for each machine, version of torch, number of threads and processes, and model
    size."""
    training, config = recipe.training, model.config
    sizes = {name: getattr(config, name) for name in SIZES}
    sizes |= {name: min(getattr(config, name), LAYERS) for name in ("encoder_layers", "decoder_layers")}
    numbers = {"torch": torch.__version__, "threads": torch.get_num_threads(), "processes": processes, **sizes}
    numbers["tokens"] = min(training.max_tokens, TOKENS)
    key = "; ".join([cpu_name(), *(f"{name} {number}" for name, number in numbers.items())])
    return cached_number(
        cache_folder(recipe.data.cache_dir) / SPEEDUPS_FILE,
        key,
        lambda: measured_speedup(model, training.max_tokens, training.cpu_threads),
    )


def cached_number(file: Path, key: str, measure: Callable[[], float]) -> float:
    """The number of a key in a JSON file, measured and added if it is missing; a damaged file is overwritten."""
    known = read_note(file)
    number = known.get(key)
    if type(number) is not float or not math.isfinite(number):
        number = round(float(measure()), 3)
        write_note(file, {**known, key: number})
    return number


def measured_speedup(model: VaswaniForConditionalGeneration, max_tokens: int, cpu_threads: int | None) -> float:
    """[`bf16_speedup`] with the number of threads that the run will choose, even next to other processes."""
    threads, config = torch.get_num_threads(), model.config
    if requested_threads(cpu_threads)[0] is None:
        work = feed_forward(config.d_model, config.encoder_ffn_dim, max_tokens)
        threads = serving_number(threads, work)
    with threads_set(threads):
        return bf16_speedup(model, max_tokens)


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
