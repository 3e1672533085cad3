"""The figures of a run: its curves, and the attention weights for some sentences."""

from collections.abc import Iterator
from pathlib import Path

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ...errors import reason
from ...runtime.processes import print_main
from ...text.normalization import is_blank
from ..checkpoints.artifacts import CURVES_FILE, FIGURES, LOG_FILE
from ..recipe.arguments import EvaluationArguments

PREFIX = "attention_"
# Length in tokens of a sentence whose attention is interesting and still readable.
SHORTEST, LONGEST = 5, 20


def draw_run_curves(folder: Path) -> Path | None:
    """Draw the curves of a run's log next to it, unless the figure is up to date.

    Returns:
        The figure's path; `None` if nothing was logged, or the figure cannot be drawn, which does not end the run.
    """
    log, figure = folder / LOG_FILE, folder / CURVES_FILE
    if not log.exists():
        return None
    from ...evaluation.curves import draw_curves

    try:
        if not figure.exists() or figure.stat().st_mtime_ns <= log.stat().st_mtime_ns:
            draw_curves([log], figure)
        return figure
    except Exception as error:  # matplotlib, fonts, the disk
        print_main(f"{CURVES_FILE} could not be drawn: {reason(error)}")
        return None


def save_attention_figures(
    folder: Path,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    name: str,
    texts: list[str],
    evaluation: EvaluationArguments,
) -> list[str]:
    """Draw the attention between some sentences and their translations.

    A figure that cannot be drawn does not fail the run: it is reported, and the figures after it are skipped.

    Args:
        folder: the figures go into its `pictures/`, named after text, line (from 1), kind and layer.
        name: the name of the text that contains the sentences.

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
        print_main(f"Attention could not be drawn: {type(error).__name__}: {' '.join(str(error).split())}")
    return drawn


def readable_sentences(tokenizer: PreTrainedTokenizerBase, texts: list[str], count: int) -> list[int]:
    """Indices of the first sentences of 5 to 20 tokens; if there are too few, also of those closest in length."""
    if not count:
        return []

    def distance(index: int) -> int:
        tokens = len(tokenizer(texts[index], add_special_tokens=False)["input_ids"])
        return max(SHORTEST - tokens, tokens - LONGEST, 0)

    # Each text once, without blank ones.
    first = {text: index for index, text in reversed(list(enumerate(texts))) if not is_blank(text)}
    return sorted(sorted(sorted(first.values()), key=distance)[:count])


def _draw_sentence(
    start: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, text: str, layers: str
) -> Iterator[Path]:
    """Draw the figures of one sentence, whose paths all begin with `start`, and yield the path of each when it is
    saved."""
    from ...evaluation.attention import KINDS, attention_figure, sentence_attention
    from ...evaluation.token_text import save_figure

    attention = sentence_attention(model, tokenizer, text)
    for kind in KINDS:
        count = getattr(attention.weights, kind).shape[1]
        for layer in range(count) if layers == "all" else [None]:
            path = start.with_name(f"{start.name}_{kind}" + ("" if layer is None else f"_layer_{layer}") + ".png")
            save_figure(attention_figure(attention, kind, layer, None if layer is None else "all"), path)
            yield path
