"""A run from recipe to finished folder: check, build, fit, export."""

from collections.abc import Callable

from ..hub.run_report import RunReport
from ..runtime.launcher import end_with_launcher
from ..runtime.processes import reported_once
from .build import build, open_run
from .check import check, check_environment
from .export import export
from .fit import fit
from .loop import run_steps
from .processes import processes_of
from .publishing.uploads import finish_uploads
from .recipe.recipe import Recipe
from .run import TrainingRun


def train(recipe: Recipe, steps: Callable[[TrainingRun], None] = run_steps) -> RunReport | None:
    """Train a model, or resume its run, and write the final model to `training.output_dir`.

    The folder then holds the model with the weights that `training.average` selects, its tokenizer,
    `generation_config.json`, a model card, translations of the test sets, curves and `results.json`. With
    `training.push_to_hub`, the model is then on the Hub, too.

    Args:
        steps: runs the optimizer steps: this package's loop on Accelerate, or transformers' Trainer.

    Returns:
        The report, in the main process; `None` in the others.

    Raises:
        InputError: for errors that the user can correct, before any long work starts.
        TrainingInterrupted: at SIGTERM or Ctrl-C, once the state is saved.
        TrainingError: if training cannot continue, because the loss is not finite or the disk is full; or if the
            finished model cannot be uploaded.
    """
    end_with_launcher()
    with reported_once():
        check_environment()
    with processes_of(recipe) as processes:
        checked = check(recipe, processes)
        setup = build(checked)
        with open_run(setup) as checkpoint:
            outcome = fit(setup, checkpoint, steps)
            report = export(setup, outcome)
            finish_uploads(setup, outcome.uploads)
            return report


__all__ = ["processes_of", "train"]
