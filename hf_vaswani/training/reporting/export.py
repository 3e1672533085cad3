"""The end of a training: its final weights, scored, and saved with all that is needed to use them."""

import shutil
from functools import partial

from safetensors import SafetensorError
from safetensors.torch import load_file

from ...core.modeling_vaswani import VaswaniForConditionalGeneration
from ...data.filters import filter_report
from ...data.tokenizers.tokenizer import save_tokenizer
from ...errors import TrainingError, reason
from ...hub.card import card_text
from ...hub.shared_recipe import shared
from ...runtime.processes import on_main_process
from ...translation.lines import write_translations
from ..checkpoints.checkpoint import Tensors, average_weights, make_readable, set_weights
from ..checkpoints.final_weights import Candidate, candidates, describe, in_words, lowest
from ..checkpoints.output_folder import CURVES_FILE
from ..configuration.recipe import Recipe
from ..loop import TrainingLoop
from ..setup.setup import Start
from .artifacts import (
    CARD_DIGEST,
    CARD_FILE,
    CARD_NAME,
    GREEDY_TRANSLATIONS,
    MEASURED_BY,
    PICTURES,
    RECIPE_AS_SHOWN,
    RESULTS_FILE,
    TRANSLATIONS,
    digest_of,
    has_edited_card,
    in_order,
    read_results,
    results_text,
    speaks_of,
    withdraw,
)
from .figures import save_attention_pictures
from .metadata import facts_of
from .report import Results
from .scores import ScoredTest, score_test

# Where all that is final is written first.
PART = ".final.part"


def finish(start: Start, loop: TrainingLoop) -> Results | None:
    """Choose the final weights, score the model, and save all that is needed to use it.

    Returns:
        The results, in the main process; `None` in the others.
    """
    recipe, folder = start.recipe, start.folder
    compared = on_main_process(loop.accelerator, lambda: candidates(recipe.training, folder, loop.log.say))
    # A model of its own: that of the loop may be compiled, wrapped for mixed precision, or spread over processes.
    model = VaswaniForConditionalGeneration(loop.raw_model.config)
    model.generation_config = loop.raw_model.generation_config
    model.to(loop.accelerator.device)
    measured = [measure(model, candidate, loop) for candidate in compared]
    losses = [loss for loss, _ in measured]
    chosen = lowest(losses)
    set_weights(model, mean_weights(compared[chosen]))
    final_weights = describe(recipe.training, compared, losses)
    loop.log.say(in_words(final_weights))
    tests = score_tests(start, loop, model)
    counts = start.counts or loop.progress.filters
    if not start.counts:
        for line in filter_report(counts, start.filters) if counts else []:
            loop.log.say(f"training text, as far as it was read in the first epoch: {line}")
    results = Results(
        folder,
        loop.progress.update,
        loop.progress.seconds / 60,
        model.num_parameters(),
        *measured[chosen],
        compared[chosen].updates,
        counts,
        {section: recipe.to_dict()[section] for section in MEASURED_BY},
        tests,
        on_main_process(loop.accelerator, lambda: draw_pictures(start, loop, model)),
        on_main_process(loop.accelerator, lambda: facts_of(start, loop, model, counts, tests)),
        final_weights,
    )
    on_main_process(loop.accelerator, lambda: save_results(start, model, results))
    return results if loop.accelerator.is_main_process else None


def measure(model: VaswaniForConditionalGeneration, candidate: Candidate, loop: TrainingLoop) -> tuple[float, float]:
    """Loss per target token and token accuracy of a candidate on the validation set; the model keeps its weights."""
    set_weights(model, mean_weights(candidate))
    return loop.validation.likelihood(model)


def mean_weights(candidate: Candidate) -> Tensors:
    """The weights of a candidate, read from its files."""
    return average_weights(load_file(file) for file in candidate.files)


def score_tests(start: Start, loop: TrainingLoop, model: VaswaniForConditionalGeneration) -> dict[str, ScoredTest]:
    """Each test set, the recipe's own first, translated and scored, by its name."""
    translate = partial(loop.validation.translate, model, show_progress=loop.accelerator.is_main_process)
    num_beams = start.recipe.generation.num_beams
    return {
        name: score_test(translate, pairs, start.recipe.evaluation, num_beams)
        for name, pairs in start.texts.test_sets.items()
    }


def draw_pictures(start: Start, loop: TrainingLoop, model: VaswaniForConditionalGeneration) -> list[str]:
    """Draw curves and attention aside; the pictures' paths, relative to the output folder that they will be in.

    The card has curves of its own: those of the log go on when the training does, and are no more of this model.
    """
    part, curves = start.folder / PART, f"{PICTURES}/{CURVES_FILE}"
    shutil.rmtree(part, ignore_errors=True)
    drawn = [curves] if loop.log.draw(copy=part / curves) else []
    name, pairs = next(iter(start.texts.test_sets.items()), ("validation", start.texts.validation))
    sources = [source for source, _ in pairs]
    return drawn + save_attention_pictures(
        part, model, start.tokenizer, name, sources, start.recipe.evaluation, loop.log.say
    )


def save_results(start: Start, model: VaswaniForConditionalGeneration, results: Results) -> None:
    """Write model, tokenizer, results, translations and card beside the pictures, then move all, the card last.

    Nothing of an earlier run goes before all that takes its place is written under another name.

    Raises:
        TrainingError: where they cannot be written.
    """
    folder, part = start.folder, start.folder / PART
    recipe, defaults = start.recipe.to_dict(), Recipe().to_dict()
    values = {**results.to_dict(), RECIPE_AS_SHOWN: shared(recipe, defaults)}
    if name := read_results(folder).get(CARD_NAME):
        values[CARD_NAME] = name
    speaks_of_model = speaks_of(folder, values)
    try:
        part.mkdir(exist_ok=True)
        model.save_pretrained(part)
        save_tokenizer(start.tokenizer, part)
        if speaks_of_model and has_edited_card(folder):
            values[CARD_DIGEST] = read_results(folder).get(CARD_DIGEST)
        else:
            card = card_text(name or folder.resolve().name, recipe, values, defaults)
            values[CARD_DIGEST] = digest_of(card)
            (part / CARD_FILE).write_bytes(card.encode())
        (part / RESULTS_FILE).write_bytes(results_text(values).encode())
        for name, test in results.tests.items():
            write_translations(part / f"{name}{TRANSLATIONS}", test.found.texts)
            if test.greedy:
                write_translations(part / f"{name}{GREEDY_TRANSLATIONS}", test.greedy.texts)
        make_readable(part)
        if not speaks_of_model:
            withdraw(folder)
        for file in in_order([path for path in part.rglob("*") if path.is_file()]):
            target = folder / file.relative_to(part)
            target.parent.mkdir(exist_ok=True)
            file.replace(target)
    except (OSError, SafetensorError) as error:
        raise TrainingError(
            f"The final model cannot be written to {folder}: {reason(error)}. The training itself is whole: make "
            "room, then the same command finishes it."
        ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
