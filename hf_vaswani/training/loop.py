"""The training loop on Accelerate: one optimizer step after another.

On a GPU, the loop hardly ever waits for a step: it reads the loss of a step only once the forward and backward passes
of the next one are under way, and a step that is not finite is skipped on the device.
"""

import math
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from accelerate import DistributedType

from .optimization.sharding import full_tensor
from .optimization.step_batches import StepBatches
from .optimization.step_loss import training_loss
from .run import TrainingRun
from .validation import total


def run_steps(run: TrainingRun) -> None:
    """Run all remaining optimizer steps of a run.

    Raises:
        TrainingInterrupted, TrainingError: as in [`TrainingRun.end_step`].
    """
    if may_run_async(run):
        run_async(run)
        return
    for batches in run.steps():
        if run.end_step(batches, *optimizer_step(run, batches)):
            break


def optimizer_step(run: TrainingRun, batches: StepBatches) -> tuple[float | None, bool]:
    """One step: forward and backward passes over this process's batches, gradient clipping, the optimizer.

    Returns:
        The mean loss per target token, or `None` if the step was skipped because the loss or a gradient was not
        finite; and whether any process has received a signal.
    """
    accelerator, optimizer = run.accelerator, run.optimizer
    run.begin_step()
    loss_sum, norm = compute_gradients(run, batches)
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


def compute_gradients(run: TrainingRun, batches: StepBatches) -> tuple[torch.Tensor, torch.Tensor]:
    """Forward and backward passes over this process's batches, and gradient clipping.

    Returns:
        This process's part of the mean loss per target token, and the norm of the gradients before clipping; `()`
        each, on the device.
    """
    accelerator, model = run.accelerator, run.model
    loss_sum = torch.zeros((), device=accelerator.device)
    parts = [part for batch in batches.micro_batches for part in run.split_batch(batch)]
    weights = run.arguments.r_drop, run.teacher, run.arguments.guided_alignment
    for i, batch in enumerate(parts):
        if accelerator.device.type == "cuda" and not any(weights):
            batch = without_full_mask(batch)
        batch = {name: tensor.to(accelerator.device, non_blocking=True) for name, tensor in batch.items()}
        is_last = i == len(parts) - 1
        with nullcontext() if is_last else accelerator.no_sync(model):
            # Processes average their gradients, so each divides its sum by an equal share of all tokens.
            with accelerator.autocast():
                share = batches.target_tokens / accelerator.num_processes
                loss = training_loss(model, batch, share, *weights)
            accelerator.backward(loss)
        loss_sum += loss.detach().float() / accelerator.num_processes
    return loss_sum, accelerator.clip_grad_norm_(model.parameters(), run.arguments.max_grad_norm or math.inf)


def without_full_mask(batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A batch on the CPU without its attention mask if there is no padding: FlashAttention takes no mask."""
    return {name: tensor for name, tensor in batch.items() if name != "attention_mask" or not tensor.all()}


def may_run_async(run: TrainingRun) -> bool:
    """Whether the device can skip a step itself: a GPU can, with Adam's fused kernel, without sharded gradients and
    without a loss scaler, which waits for each step."""
    accelerator, optimizer = run.accelerator, run.optimizer.optimizer
    if accelerator.scaler is not None or accelerator.distributed_type == DistributedType.FSDP:
        return False
    return accelerator.device.type == "cuda" and isinstance(optimizer, torch.optim.Adam | torch.optim.AdamW)


@dataclass(frozen=True)
class StepOnDevice:
    """A step that the device may still be computing.

    Attributes:
        batches: those of the step.
        values: on the CPU, once they are copied: the mean loss per target token, whether the step was taken, and the
            number of processes that have received a signal; `(3,)`.
        copied: follows the copy in the device's queue; `None` on a CPU.
    """

    batches: StepBatches
    values: torch.Tensor
    copied: torch.cuda.Event | None

    def end(self, run: TrainingRun) -> bool:
        """Wait for this step, but for nothing after it, and return whether it was the last one of the run."""
        if self.copied:
            self.copied.synchronize()
        loss, is_taken, signals = self.values.tolist()
        return run.end_step(self.batches, loss if is_taken else None, signals > 0)


def run_async(run: TrainingRun) -> None:
    """Run all remaining steps, most of which end while the passes of the next one are computed.

    What follows a step finds the same weights and optimizer as if the loop had waited for it: these change only after
    it has ended.
    """
    before: StepOnDevice | None = None
    for batches in run.steps():
        run.seed_dropout(steps_under_way=int(before is not None))
        loss, norm = compute_gradients(run, batches)
        if before and before.end(run):
            break
        run.set_learning_rate()
        before = step_on_device(run, batches, loss, norm)
        if run.needs_sync(batches):
            if before.end(run):
                break
            before = None
    run.optimizer.zero_grad()


def step_on_device(run: TrainingRun, batches: StepBatches, loss: torch.Tensor, norm: torch.Tensor) -> StepOnDevice:
    """The optimizer's part of a step, which the device skips if the loss or a gradient is not finite.

    Args:
        loss, norm: as returned by [`compute_gradients`].
    """
    optimizer = run.optimizer
    # Filled in on the device: a copy from the CPU would wait.
    signals = torch.full_like(loss, float(run.stop.received))
    loss, signals = run.accelerator.reduce(torch.stack([loss, signals]).double())
    is_finite = loss.isfinite() & norm.isfinite()
    # What a loss scaler would tell the kernel, which then leaves weights, moments and step counts as they are.
    optimizer.optimizer.found_inf = is_finite.logical_not().float()
    optimizer.step()
    optimizer.zero_grad()
    values = torch.stack([loss, is_finite.double(), signals]).to("cpu", non_blocking=True)
    copied = torch.cuda.Event() if loss.is_cuda else None
    if copied:
        copied.record()
    return StepOnDevice(batches, values, copied)
