"""Calibrates the confidence of a run's model, if the recipe asks for it."""

from ...core.modeling_vaswani import VaswaniForConditionalGeneration
from ...errors import InputError
from ...evaluation.confidence import calibrate
from ...runtime.processes import say
from ...translator.pipeline import TranslationPipeline
from ..build import TrainingSetup

MOST_PAIRS = 2000


def calibrate_confidence(setup: TrainingSetup, model: VaswaniForConditionalGeneration) -> None:
    """Set `confidence` of the model's config from its translations of the validation set."""
    pairs = setup.splits.validation
    pairs = pairs[:: max(1, len(pairs) // MOST_PAIRS)]
    translator = TranslationPipeline(model, tokenizer=setup.tokenizer, device=model.device)
    try:
        report = calibrate(translator, *zip(*pairs))
    except InputError as error:  # the model itself must not be lost
        say(f"warning: evaluation.confidence: {error}")
        return
    model.config.confidence = report.calibration.to_dict()
    say(str(report))
