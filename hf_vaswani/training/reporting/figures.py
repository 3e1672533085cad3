"""The figures of a run: its curves, and the attention of some sentences."""

from collections.abc import Callable, Iterator
from pathlib import Path

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ...errors import reason
from ...evaluation.attention import KINDS, attention_figure, sentence_attention
from ...evaluation.curves import draw_curves
from ...evaluation.figure_file import save_figure
from ..checkpoints.output_folder import CURVES_FILE, LOG_FILE
from ..recipe.arguments import EvaluationArguments
from .artifacts import FIGURES

PREFIX = "attention_"
# Tokens of a sentence that is worth a look and can be read.
SHORTEST, LONGEST = 5, 20


def draw_run_curves(folder: Path, report: Callable[[str], None]) -> Path | None:
    """Draw the curves of a run's log beside it, unless they are there and up to date.

    Args:
        folder: of the run.
        report: called with a line where they cannot be drawn, which ends no run.

    Returns:
        The figure; `None` if nothing was logged, or it cannot be drawn.
    """
    log, figure = folder / LOG_FILE, folder / CURVES_FILE
    if not log.exists():
        return None
    try:
        if not figure.exists() or figure.stat().st_mtime_ns <= log.stat().st_mtime_ns:
            draw_curves([log], figure)
        return figure
    except Exception as error:  # matplotlib, fonts, the disk
        report(f"{CURVES_FILE} could not be drawn: {reason(error)}")
        return None


def save_attention_figures(
    folder: Path,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    name: str,
    texts: list[str],
    evaluation: EvaluationArguments,
    report: Callable[[str], None],
) -> list[str]:
    """Draw the attention of some sentences and their translations.

    A figure that cannot be drawn costs no run its results: it is reported, and those after it are left out.

    Args:
        folder: into whose `pictures/` they go, named after text, line (from 1), kind and layer.
        name: of the text that the sentences are of.

    Returns:
        The figures' paths, relative to the folder.
    """
    place = folder / FIGURES
    drawn: list[str] = []
    try:
        for line in readable_sentences(tokenizer, texts, evaluation.attention):
            place.mkdir(parents=True, exist_ok=True)
            prefix = f"{PREFIX}{name}_{line + 1}"
            for path in _draw_sentence(place / prefix, model, tokenizer, texts[line], evaluation.attention_layers):
                drawn.append(f"{FIGURES}/{path.name}")
    except Exception as error:  # matplotlib, fonts, the disk: whatever it is, the run itself is complete
        report(f"Attention could not be drawn: {type(error).__name__}: {' '.join(str(error).split())}")
    return drawn


def readable_sentences(tokenizer: PreTrainedTokenizerBase, texts: list[str], count: int) -> list[int]:
    """The first sentences of 5 to 20 tokens, by their indices; where these are too few, those nearest in length."""
    if not count:
        return []

    def distance(index: int) -> int:
        tokens = len(tokenizer(texts[index], add_special_tokens=False)["input_ids"])
        return max(SHORTEST - tokens, tokens - LONGEST, 0)

    # Each text once, and none that is blank.
    first = {text: index for index, text in reversed(list(enumerate(texts))) if text.strip()}
    return sorted(sorted(sorted(first.values()), key=distance)[:count])


def _draw_sentence(
    start: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, text: str, layers: str
) -> Iterator[Path]:
    """Draw the figures of one sentence, whose paths begin alike; each path, once its figure is there."""
    attention = sentence_attention(model, tokenizer, text)
    for kind in KINDS:
        count = getattr(attention.weights, kind).shape[1]
        for layer in range(count) if layers == "all" else [None]:
            path = start.with_name(f"{start.name}_{kind}" + ("" if layer is None else f"_layer_{layer}") + ".png")
            save_figure(attention_figure(attention, kind, layer, None if layer is None else "all"), path)
            yield path
