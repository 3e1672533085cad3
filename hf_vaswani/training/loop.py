"""The training loop on Accelerate: one optimizer step after another."""

import math
from contextlib import nullcontext

import torch

from .optimization.loss import training_loss
from .optimization.sharding import full_tensor
from .optimization.step_batches import StepBatches
from .run import TrainingRun
from .validation import total


def run_steps(run: TrainingRun) -> None:
    """Run all remaining optimizer steps of a run.

    Raises:
        TrainingInterrupted, TrainingError: as in [`TrainingRun.end_step`].
    """
    for batches in run.steps():
        if run.end_step(batches, *optimizer_step(run, batches)):
            break


def optimizer_step(run: TrainingRun, batches: StepBatches) -> tuple[float | None, bool]:
    """One step: forward and backward passes over this process's batches, gradient clipping, the optimizer.

    Returns:
        The mean loss per target token, or `None` if the step was skipped because the loss or a gradient was not
        finite; and whether any process has received a signal.
    """
    accelerator, model, optimizer = run.accelerator, run.model, run.optimizer
    run.begin_step()
    loss_sum = torch.zeros((), device=accelerator.device)
    parts = [part for batch in batches.micro_batches for part in run.split_batch(batch)]
    for i, batch in enumerate(parts):
        batch = {name: tensor.to(accelerator.device, non_blocking=True) for name, tensor in batch.items()}
        is_last = i == len(parts) - 1
        with nullcontext() if is_last else accelerator.no_sync(model):
            # Processes average their gradients, so each divides its sum by an equal share of all tokens.
            with accelerator.autocast():
                share = batches.target_tokens / accelerator.num_processes
                weights = run.arguments.r_drop, run.teacher, run.arguments.guided_alignment
                loss = training_loss(model, batch, share, *weights)
            accelerator.backward(loss)
        loss_sum += loss.detach().float() / accelerator.num_processes
    norm = accelerator.clip_grad_norm_(model.parameters(), run.arguments.max_grad_norm or math.inf)
    loss, signals = total(accelerator, [loss_sum.item(), float(run.stop.received)])
    is_good = math.isfinite(loss) and math.isfinite(full_tensor(norm))
    if accelerator.scaler is not None:
        # A loss scaler has to see gradients that are not finite: it skips the step itself, and lowers its scale.
        scale = accelerator.scaler.get_scale()
        optimizer.step()
        is_good = accelerator.scaler.get_scale() >= scale
    elif is_good:
        optimizer.step()
    optimizer.zero_grad()
    return (loss if is_good else None), signals > 0
