"""The last phase: scores the final weights of a run, and saves them with everything needed to use them."""

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from safetensors import safe_open
from transformers.utils import ADAPTER_CONFIG_NAME, ADAPTER_SAFE_WEIGHTS_NAME, SAFE_WEIGHTS_NAME

from ..core.modeling_vaswani import VaswaniForConditionalGeneration
from ..data.filters import filter_report
from ..data.tokenizers.tokenizer import save_tokenizer
from ..errors import TrainingError, counted
from ..generation.model_checks import damaged_weights
from ..models.model_files import CONFIG_FILE, SHORTLIST_FILE
from ..records import EVAL_RESULTS, RESULTS_FILE
from ..records.run_report import RunReport
from ..runtime.processes import first_on_each_machine, in_all_processes, on_main_process, print_main
from .build import TrainingSetup, scoring_of
from .checkpoints.artifacts import (
    ALL_TRANSLATIONS,
    CARD_DIGEST,
    CARD_FILE,
    CARD_NAME,
    CURVES_FILE,
    FIGURES,
    FINAL_PART,
    LOG_FILE,
    card_digest,
    has_edited_card,
    in_order,
    matches,
    read_results,
    remove_stale,
    saving,
)
from .checkpoints.average import Candidate, candidates, describe, lowest
from .checkpoints.checkpoint import make_readable
from .fit import TrainingOutcome
from .optimization.weights import Tensors, average_weights, set_weights
from .reporting.figures import draw_run_curves, save_attention_figures
from .reporting.report import make_report
from .schedule import SCHEDULES
from .scoring import ScoredTest, calibrate_confidence, score_test
from .setup.final_model import FinalModel
from .setup.splits import sample_pairs
from .setup.training_batches import tokenizer_text

# The files that make a folder that of a model, or of an adapter.
MODEL_FILES, ADAPTER_FILES = (CONFIG_FILE, SAFE_WEIGHTS_NAME), (ADAPTER_CONFIG_NAME, ADAPTER_SAFE_WEIGHTS_NAME)


def export(setup: TrainingSetup, outcome: TrainingOutcome) -> RunReport | None:
    """Choose the final weights, score the model, and save everything needed to use it.

    Returns:
        The report, in the main process; `None` in the others.

    Raises:
        TrainingError: if the weights are not finite, or the model cannot be written.
    """
    recipe, processes, progress = setup.recipe, setup.processes, outcome.progress
    compared = on_main_process(processes, lambda: candidates(recipe.training, setup.folder, print_main))
    processes.free_memory()  # of the optimizer, which the final model may need
    final_model = FinalModel(recipe, setup.tokenizer, outcome.config, outcome.generation_config)
    model = final_model.model.to(processes.device)
    measured = [measure(setup, model, candidate) for candidate in compared]
    losses = [loss for loss, _ in measured]
    chosen = lowest(losses)
    set_weights(model, mean_weights(compared[chosen]))
    write = final_model.finish()
    model = final_model.model
    if damaged := damaged_weights(model.named_parameters()):
        error = TrainingError(
            f"The run ended with NaN or infinite weights, for example in {damaged[0]}. Lower "
            "training.learning_rate, raise training.adam_epsilon, or lengthen the warm-up, and start over with "
            "--overwrite true."
        )
        raise in_all_processes(processes, error)
    final = describe(recipe.training, compared, losses)
    why = final.comparison() or f" (training.average={final.average})"
    print_main(f"The final model is {final.weights}{why}", processes)
    tests = score_tests(setup, model)
    counts = setup.counts or progress.filters
    if not setup.counts:
        for line in filter_report(counts, setup.filters) if counts else []:
            print_main(f"training text read in the first epoch: {line}", processes)

    def save() -> RunReport:
        if recipe.evaluation.confidence:
            calibrate_confidence(setup, model)
        figures = draw_figures(setup, model, progress.step)
        validation, averaged = measured[chosen], compared[chosen].steps
        report = make_report(setup, progress, model, final, validation, averaged, counts, tests, figures)
        if teacher := setup.inputs.compared:
            from .reporting.teacher import compare

            report = report.model_copy(update={"teacher": compare(setup, model, *teacher)})
        with saving(f"Training is complete, but the final model cannot be written to {setup.folder}", "to finish"):
            return save_report(setup, write, report, tests)

    report = on_main_process(processes, save)
    return report if processes.is_main_process else None


def measure(setup: TrainingSetup, model: VaswaniForConditionalGeneration, candidate: Candidate) -> tuple[float, float]:
    """Loss per target token and token accuracy of a candidate on the validation set; its weights stay in `model`."""
    set_weights(model, mean_weights(candidate))
    return setup.validator.likelihood(model)


def mean_weights(candidate: Candidate) -> Tensors:
    """The mean of the weights in a candidate's files, of which one tensor at a time is in memory."""
    with ExitStack() as stack:
        files = [stack.enter_context(safe_open(file, "pt")) for file in candidate.files]
        mean: Tensors = {}
        for name in list(files[0].keys()):
            mean |= average_weights({name: file.get_tensor(name)} for file in files)
        return mean


def score_tests(setup: TrainingSetup, model: VaswaniForConditionalGeneration) -> dict[str, ScoredTest]:
    """Translate and score each test set; the results by name, with the recipe's own test set first."""
    translate = partial(setup.validator.translate, model, show_progress=setup.processes.is_main_process)
    recipe, test_sets = setup.recipe, setup.splits.test_sets
    reranker = first_on_each_machine(setup.processes, lambda: setup.inputs.reranker) if test_sets else None
    beams, glossary = recipe.generation.num_beams, setup.inputs.scored_glossary
    return {
        name: score_test(
            translate, pairs, recipe.evaluation, beams, scoring_of(recipe, setup.tokenizer, name), reranker, glossary
        )
        for name, pairs in test_sets.items()
    }


def draw_figures(setup: TrainingSetup, model: VaswaniForConditionalGeneration, steps: int) -> list[str]:
    """Draw curves and attention into a temporary folder; the figures' paths, relative to the output folder.

    The card has its own copy of the curves: those next to the log change when the run is resumed, and no longer
    describe this model.
    """
    part, drawn = setup.folder / FINAL_PART, []
    shutil.rmtree(part, ignore_errors=True)
    if curves := draw_run_curves(setup.folder):
        (part / FIGURES).mkdir(parents=True)
        shutil.copyfile(curves, part / FIGURES / CURVES_FILE)
        drawn.append(f"{FIGURES}/{CURVES_FILE}")
    elif not (setup.folder / LOG_FILE).exists():
        print_main(
            f"No {CURVES_FILE}: nothing was logged in {counted(steps, 'step')}. Lower training.logging_steps or "
            "training.eval_steps to log more often."
        )
    name, pairs = next(iter(setup.splits.test_sets.items()), ("validation", setup.splits.validation))
    sources = [source for source, _ in pairs]
    return drawn + save_attention_figures(part, model, setup.tokenizer, name, sources, setup.recipe.evaluation)


def save_report(
    setup: TrainingSetup, save_model: Callable[[Path], None], report: RunReport, tests: dict[str, ScoredTest]
) -> RunReport:
    """Write model, tokenizer, report, translations and card next to the figures, then move everything, the card last.

    Nothing of an earlier run is removed before everything that replaces it has been written elsewhere.

    Args:
        save_model: writes the model, or the adapter, into a folder.

    Returns:
        The report as it was written, with the digest of its card.

    Raises:
        OSError, SafetensorError: if the files cannot be written.
    """
    from ..hub.metadata import eval_results
    from ..hub.model_card import card_text
    from .publishing.portable_run import shared_recipe

    folder, part = setup.folder, setup.folder / FINAL_PART
    recipe, before = setup.recipe.to_dict(), read_results(folder)
    shared = shared_recipe(recipe)
    name = str(before.get(CARD_NAME) or setup.repository or "")
    report = report.model_copy(update={"recipe": shared, **({"name": name} if name else {})})
    is_same_model = matches(folder, report)
    try:
        part.mkdir(exist_ok=True)
        save_model(part)
        save_tokenizer(setup.tokenizer, part)
        if setup.recipe.training.shortlist:
            save_shortlist(setup, part)
        digest = before.get(CARD_DIGEST)
        if not (is_same_model and has_edited_card(folder)):
            falls_to_end = SCHEDULES[setup.recipe.training.lr_scheduler_type].falls_to_end
            card = card_text(name or folder.resolve().name, recipe, report, shared, falls_to_end=falls_to_end)
            digest = card_digest(card)
            (part / CARD_FILE).write_bytes(card.encode())
        report = report.model_copy(update={"card": digest})
        (part / RESULTS_FILE).write_bytes(report.to_json().encode())
        report.provenance().write(part)
        if content := eval_results(recipe, report):
            (part / EVAL_RESULTS).parent.mkdir()
            (part / EVAL_RESULTS).write_bytes(content.encode())
        for test_name, test in tests.items():
            for search, translations in test.translations.items():
                translations.write(part / f"{test_name}{ALL_TRANSLATIONS[search]}")
        make_readable(part)
        if not is_same_model:
            remove_stale(folder)
        # A model and an adapter in one folder would be loaded together; a shortlist may be that of another model.
        for name in (*MODEL_FILES, *ADAPTER_FILES, SHORTLIST_FILE):
            if not (part / name).exists():
                (folder / name).unlink(missing_ok=True)
        for file in in_order([path for path in part.rglob("*") if path.is_file()]):
            target = folder / file.relative_to(part)
            target.parent.mkdir(exist_ok=True)
            file.replace(target)
        return report
    finally:
        shutil.rmtree(part, ignore_errors=True)


def save_shortlist(setup: TrainingSetup, folder: Path) -> None:
    """Learn a shortlist from the training text, or from about a million pairs of it, and write it into a folder."""
    from ..engines.shortlist import MOST_PAIRS, learn_shortlist

    print_main("Learning which target tokens each source token may become, for exports to CTranslate2")
    text = setup.splits.train and sample_pairs(setup.splits, setup.recipe.data, MOST_PAIRS)
    pairs = text or tokenizer_text(setup.recipe, setup.splits)
    shortlist = learn_shortlist(pairs, setup.tokenizer, setup.model.config)
    (folder / SHORTLIST_FILE).write_text(shortlist, encoding="utf-8")
