"""Compares a model with its export by how they translate a test set."""

from pathlib import Path

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ...evaluation.score import scores
from ...evaluation.score_settings import score_settings
from ...hub.export_card import Comparison, MetricLoss
from ...text.invisible import is_blank
from ...text.languages import own_languages
from ...translation.translate import translate

METRICS = ("bleu", "chrf")


def compare(
    model: PreTrainedModel,
    exported: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    source: str,
    sources: list[str],
    references: list[list[str]],
    is_greedy: bool = False,
) -> Comparison:
    """Translate a test set with a model and with its export, and compare the scores.

    Both use the model's own search.

    Args:
        source: file with the source side of the test set.
        sources: its lines.
        references: one or several references, each with a line per source line.
        is_greedy: search greedily instead.
    """
    beams = 1 if is_greedy else model.generation_config.num_beams or 1
    outputs = [
        translate(either, tokenizer, sources, show_progress=True, num_beams=beams) for either in (model, exported)
    ]
    settings = score_settings(tokenizer, own_languages(model.config, tokenizer)[1]).arguments()
    losses = [
        MetricLoss(own.name, own.value, other.value, own.signature)
        for own, other in zip(*(scores(output, references, METRICS, **settings) for output in outputs))
    ]
    same = sum(own == other for own, other in zip(*outputs))
    example = next((pair for pair in zip(sources, outputs[1]) if not is_blank(pair[0])), (sources[0], outputs[1][0]))
    search = f"beam {beams}" if beams > 1 else "greedy"
    computed_by = getattr(exported, "computed_by", "PyTorch")
    return Comparison(Path(source).name, search, computed_by, len(sources), same, losses, example)


__all__ = ["compare"]
