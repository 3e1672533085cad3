"""Gathers the state of a run from model and optimizer, and restores it, even if they are sharded over processes."""

from pathlib import Path

from accelerate import Accelerator
from torch import nn

from ..optimization.ema import MovingAverage
from ..optimization.sharding import full_tensor, optimizer_state, set_optimizer_state
from ..optimization.weights import Tensors, set_weights, weights
from .checkpoint import TrainingState, load_checkpoint
from .progress import Progress


def gather_weights(model: nn.Module) -> Tensors:
    """The full weights by name, tied ones once, in every process."""
    return {name: full_tensor(value) for name, value in weights(model).items()}


def gather_state(
    accelerator: Accelerator, model: nn.Module, optimizer, ema: MovingAverage | None, progress: Progress
) -> TrainingState:
    """Everything that a checkpoint holds. Must be called in every process."""
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
    """Load a checkpoint into model, optimizer, moving average and loss scaler, and return the progress it stores.

    Raises:
        TrainingError: if the checkpoint cannot be read.
    """
    state = load_checkpoint(checkpoint)
    set_weights(accelerator.unwrap_model(model), state.weights)
    set_optimizer_state(optimizer, state.optimizer)
    if ema and state.ema:
        ema.load(state.ema)
    if accelerator.scaler is not None and state.scaler:
        accelerator.scaler.load_state_dict(state.scaler)
    return state.progress
