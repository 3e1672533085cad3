"""The state of a run, gathered from model and optimizer and put back, however they are spread over processes."""

from pathlib import Path

from accelerate import Accelerator
from torch import nn

from ..optimization.ema import MovingAverage
from ..optimization.sharding import full_tensor, optimizer_state, set_optimizer_state
from ..optimization.weights import Tensors, set_weights, weights
from .checkpoint import TrainingState, load_checkpoint
from .progress import Progress


def gather_weights(model: nn.Module) -> Tensors:
    """Whole weights by name, tied ones once, in every process."""
    return {name: full_tensor(value) for name, value in weights(model).items()}


def gather_state(
    accelerator: Accelerator, model: nn.Module, optimizer, ema: MovingAverage | None, progress: Progress
) -> TrainingState:
    """All that a checkpoint holds. To be called in every process."""
    return TrainingState(
        weights=gather_weights(accelerator.unwrap_model(model)),
        optimizer=optimizer_state(optimizer),
        progress=progress,
        ema={name: full_tensor(value) for name, value in ema.shadow.items()} if ema else None,
        scaler=accelerator.scaler.state_dict() if accelerator.scaler is not None else None,
    )


def restore_state(
    accelerator: Accelerator, model: nn.Module, optimizer, ema: MovingAverage | None, checkpoint: Path
) -> Progress:
    """Put a checkpoint's state into model, optimizer, average and loss scaler; returns how far it had come.

    Raises:
        TrainingError: where the checkpoint cannot be read.
    """
    state = load_checkpoint(checkpoint)
    set_weights(accelerator.unwrap_model(model), state.weights)
    set_optimizer_state(optimizer, state.optimizer)
    if ema and state.ema:
        ema.load(state.ema)
    if accelerator.scaler is not None and state.scaler:
        accelerator.scaler.load_state_dict(state.scaler)
    return state.progress
