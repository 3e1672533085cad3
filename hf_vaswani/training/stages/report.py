"""The stages in the report and the card of a recipe's last run: their results, their times, and the teacher."""

import importlib.util
import math
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase, pipeline

from ...core.modeling_vaswani import VaswaniForConditionalGeneration
from ...engines.checked_export import export_model
from ...errors import InputError, counted
from ...hub.file_names import file_names
from ...hub.run_report import RunReport, SearchReport, StageReport, TeacherReport, TestScores
from ...hub.trail import read_trail
from ...runtime.processes import say
from ...runtime.threads import cores_of_run
from ...translation.lines import LineTranslator
from ...translation.windows import Line
from ..build import TrainingSetup
from ..reporting.scores import bleu_and_chrf
from ..setup.text_mix import OWN
from .arguments import AVERAGE, TRAIN, TRANSLATE
from .plan import Plan, PlannedStage
from .record import OWN_TEXT, Record, read_record
from .teacher import open_teacher, search_of

# Most sentences on which student and teacher are compared; sentences that both translate before timing starts.
MOST_SENTENCES, WARM_UP = 1000, 64
# A measurement of speed takes at least about this many seconds, unless there are very few sentences.
SHORTEST = 5.0


def result_of_run(report: RunReport) -> dict[str, Any]:
    """What a training stage's record keeps of its report."""
    kept = ("steps", "parameters", "validation_loss")
    tests = {name: scores.model_dump(exclude_unset=True) for name, scores in report.tests.items()}
    return {**{name: getattr(report, name) for name in kept}, "tests": tests}


@dataclass(frozen=True)
class CompletedReport:
    """Adds the results of the stages to the report of the last run.

    Attributes:
        plan: of the stages, which are all finished.
    """

    plan: Plan

    def __call__(self, setup: TrainingSetup, model: VaswaniForConditionalGeneration, report: RunReport) -> RunReport:
        """The report with all stages, the total time, and the comparison with the teacher."""
        records = {stage.name: read_record(stage.record) for stage in self.plan.stages}
        stages = [stage_report(stage, record) for stage in self.plan.stages if (record := records[stage.name])]
        more: dict[str, Any] = {
            "stages": stages,
            "total_seconds": report.seconds + sum(stage.seconds for stage in stages),
        }
        if teacher := self.plan.teacher:
            more["teacher"] = compare(teacher, setup, model)
        return report.model_copy(update=more)


def stage_report(planned: PlannedStage, record: Record) -> StageReport:
    """The report of a finished stage."""
    stage, result = planned.stage, record.result
    values: dict[str, Any] = {"name": stage.name, "kind": stage.kind, "seconds": record.seconds}
    arguments = stage.arguments
    if stage.kind == TRAIN:
        data = arguments.data
        parts = ", ".join(f"{name} {weight:g}" for name, weight in data.text.items()) if isinstance(data.text, dict) \
            else ", ".join(data.text or ["own"])  # fmt: skip
        values |= {name: result[name] for name in ("steps", "parameters", "validation_loss")}
        values |= {"text": parts + (", reversed" if data.reversed else "")}
        values |= {"tests": {name: TestScores(**scores) for name, scores in result["tests"].items()}}
        if not planned.needs and (trail := read_trail(planned.folder)):
            values["trail"] = trail.shown()
        if arguments.training.start_from:
            values["start"] = file_names(arguments.training.start_from)
        if arguments.training.teachers:
            values["models"] = file_names(arguments.training.teachers)
    elif stage.kind == TRANSLATE:
        names = ("failed", "repeated", "empty", "cut", "farther", "low")
        values |= {
            "models": file_names(arguments.models), "side": arguments.side, "search": arguments.search(),
            "text": ", ".join(OWN_TEXT if name == OWN else Path(name).name for name in arguments.inputs),
            "lines": result["lines"], "pairs": result["pairs"],
            "left_out": {name: result[name] for name in names if result.get(name)},
        }  # fmt: skip
    elif stage.kind == AVERAGE:
        values |= {"models": file_names(arguments.models)}
    return StageReport(**values)


def compare(teacher: PlannedStage, setup: TrainingSetup, student: VaswaniForConditionalGeneration) -> TeacherReport:
    """Translate the first test set, or the validation set, with teacher and student in turn, and compare the two."""
    name, pairs = next(iter(setup.splits.test_sets.items()), ("validation", setup.splits.validation))
    pairs = pairs[:MOST_SENTENCES]
    sources, references = map(list, zip(*pairs))
    arguments, scoring = teacher.arguments, setup.validator.scoring
    say(f"comparing with the teacher, stage {teacher.name}, on {counted(len(pairs), 'sentence')}")
    opened = open_teacher(arguments, setup.recipe.data)
    best = arguments.model_copy(update={"n_best": 1, "keep_closest": None})
    search = search_of(best, opened.model)
    by_teacher = [opened.prefix + source for source in sources]
    workers = cores_of_run(setup.recipe.training.cpu_threads, setup.processes.num_processes)
    search |= {"num_workers": workers}
    taught, speed = timed(opened.model, opened.tokenizer, by_teacher, opened.languages, seed=arguments.seed, **search)
    learned, own_speed = timed(student, setup.tokenizer, sources, {}, num_workers=workers, num_beams=1)
    scores = [bleu_and_chrf(texts, references, scoring) for texts in (taught, learned)]
    agreement, _ = bleu_and_chrf(learned, taught, scoring)
    return TeacherReport(
        models=file_names(teacher.stage.arguments.models),
        parameters=opened.model.num_parameters(),
        sentences=len(pairs),
        test=name,
        teacher=SearchReport(
            search=best.search(), sentences_per_second=speed, bleu=scores[0][0].value, chrf2=scores[0][1].value
        ),
        student=SearchReport(
            search="greedy", sentences_per_second=own_speed, bleu=scores[1][0].value, chrf2=scores[1][1].value
        ),
        agreement=agreement.value,
        signature=agreement.signature,
        int8_bytes=int8_size(student, setup.tokenizer),
    )


def timed(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: list[str],
    languages: dict[str, str],
    **search: Any,
) -> tuple[list[str], float]:
    """Translations of texts, and the speed in sentences per second."""
    was_training = model.training
    translator = pipeline("translation", model=model.eval(), tokenizer=tokenizer, device=model.device, **languages)
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
