"""A run from recipe to finished folder: check, build, fit, export. A recipe's stages, if any, run before it."""

from collections.abc import Callable
from functools import partial

from ..hub.run_report import RunReport
from ..runtime.launcher import end_with_launcher
from ..runtime.processes import reported_once
from .build import build, open_run
from .check import check, check_environment
from .export import Complete, export
from .fit import fit
from .loop import run_steps
from .processes import processes_of
from .publishing.uploads import finish_uploads
from .recipe.recipe import Recipe
from .run import TrainingRun
from .stages.run import run_stages


def train(
    recipe: Recipe,
    steps: Callable[[TrainingRun], None] = run_steps,
    complete: Complete | None = None,
    ends_group: bool = True,
) -> RunReport | None:
    """Train a model, or resume its run, and write the final model to `training.output_dir`.

    The folder then holds the model with the weights that `training.average` selects, its tokenizer,
    `generation_config.json`, a model card, translations of the test sets, curves and `results.json`. With
    `training.push_to_hub`, the model is then on the Hub, too.

    The stages of a recipe run, or resume, before the run itself; their output is in the folder's `stages/`.

    Args:
        steps: runs the optimizer steps: this package's loop on Accelerate, or transformers' Trainer.
        complete: called to add to the report before it is written.
        ends_group: see [`processes_of`].

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
    if recipe.stages:
        return run_stages(recipe, partial(train, steps=steps))
    with processes_of(recipe, ends_group) as processes:
        checked = check(recipe, processes)
        setup = build(checked)
        with open_run(setup) as checkpoint:
            outcome = fit(setup, checkpoint, steps)
            report = export(setup, outcome, complete)
            finish_uploads(setup, outcome.uploads)
            return report


__all__ = ["processes_of", "train"]
