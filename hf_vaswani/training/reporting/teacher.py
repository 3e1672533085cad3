"""Compares the final model with another one, such as the teacher whose translations it learned from."""

import importlib.util
import math
import tempfile
import time
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase, pipeline

from ...core.modeling_vaswani import VaswaniForConditionalGeneration
from ...engines.checked_export import export_model
from ...errors import InputError, counted
from ...hub.card_wording import search_name
from ...hub.repository import file_names
from ...records.run_report import (
    SearchReport,
    TeacherReport,
)
from ...runtime.processes import print_main
from ...runtime.threads import cores_of_run
from ...text.language_marks import without_mark
from ...translator.lines import Line, LineTranslator
from ..build import TrainingSetup
from ..setup.inputs import compared_languages
from ..validation import bleu_and_chrf

# Most sentences on which the two are compared; sentences that both translate before timing starts.
MOST_SENTENCES, WARM_UP = 1000, 64
# A measurement of speed takes at least about this many seconds, unless there are very few sentences.
SHORTEST = 5.0


def compare(
    setup: TrainingSetup,
    student: VaswaniForConditionalGeneration,
    teacher: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
) -> TeacherReport:
    """Translate the first test set, or the validation set, with `evaluation.compare_with` by its own search, and with
    the final model by greedy search, and compare the two."""
    name, pairs = next(iter(setup.splits.test_sets.items()), ("validation", setup.splits.validation))
    pairs = pairs[:MOST_SENTENCES]
    sources, references = [without_mark(source) for source, _ in pairs], [target for _, target in pairs]
    data = setup.recipe.data
    scoring, names = setup.validator.scoring, setup.recipe.evaluation.compared
    print_main(f"comparing with {', '.join(names)} on {counted(len(pairs), 'sentence')}")
    workers = cores_of_run(setup.recipe.training.cpu_threads, setup.processes.num_processes)
    taught, speed = timed(
        teacher, tokenizer, sources, num_workers=workers, **compared_languages(teacher, tokenizer, data)
    )
    own = compared_languages(student, setup.tokenizer, data)
    learned, own_speed = timed(student, setup.tokenizer, sources, num_workers=workers, num_beams=1, **own)
    scores = [bleu_and_chrf(texts, references, scoring) for texts in (taught, learned)]
    agreement, _ = bleu_and_chrf(learned, taught, scoring)
    searches = (search_name(teacher.generation_config.num_beams or 1), search_name(1))
    reports = [
        SearchReport(search=search, sentences_per_second=rate, bleu=bleu.value, chrf2=chrf.value)
        for search, rate, (bleu, chrf) in zip(searches, (speed, own_speed), scores)
    ]
    return TeacherReport(
        models=file_names(names, is_path=True),
        parameters=teacher.num_parameters(),
        sentences=len(pairs),
        test=name,
        teacher=reports[0],
        student=reports[1],
        agreement=agreement.value,
        signature=agreement.signature,
        int8_bytes=int8_size(student, setup.tokenizer),
    )


def timed(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: list[str], **search: object
) -> tuple[list[str], float]:
    """Translations of texts, and the speed in sentences per second."""
    was_training = model.training
    engine = getattr(model, "engine_key", "torch")  # a teacher may be an exported folder
    translator = pipeline("translation", model=model.eval(), tokenizer=tokenizer, device=model.device, engine=engine)
    translate = LineTranslator(translator, **search)
    lines = [Line(text) for text in texts]
    translate(lines[:WARM_UP])

    def translated(copies: int) -> tuple[list[Any], float]:
        began = time.perf_counter()
        return translate(lines * copies), (time.perf_counter() - began) / copies

    results, seconds = translated(1)
    if seconds < SHORTEST and len(lines) > WARM_UP:  # starting the workers would take a large part of it
        seconds = translated(math.ceil(SHORTEST / seconds))[1]
    model.train(was_training)
    found = ["" if isinstance(result, Exception) else result[0]["translation_text"] for result in results]
    return found, len(texts) / seconds


def int8_size(model: VaswaniForConditionalGeneration, tokenizer: PreTrainedTokenizerBase) -> int | None:
    """Bytes of a model's weights when exported to CTranslate2 in 8 bits; `None` if that is not possible."""
    if importlib.util.find_spec("ctranslate2") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        try:
            return export_model(model, tokenizer, Path(folder) / "int8", "int8").size
        except InputError:  # CTranslate2 has no such model
            return None
