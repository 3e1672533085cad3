"""The figures of the page: the attention of a sentence as a heat map and in words, and the tree of its search."""

import base64
import io
from collections import OrderedDict
from threading import Lock

from ..core.tokenization_vaswani import private_copy
from ..errors import InputError
from ..evaluation.attention import (
    KINDS,
    SentenceAttention,
    Which,
    attention_figure,
    selection_errors,
    sentence_attention,
    set_languages,
)
from ..evaluation.beam_tree import beam_tree, search_errors
from ..evaluation.beam_tree_figure import beam_tree_svg, settings_line, stop_line
from ..text.language_marks import mark_target
from ..text.normalization import is_blank
from .limits import LONGEST_FIGURE, MOST_BEAMS, check_text, user_errors
from .models import NO_LANGUAGES, Languages, LoadedModel
from .views import figure, image, paragraphs

MEAN, ALL = "mean", "all"
KEPT = 8
# Browsers may hide the scrollbar, so that a wide figure looks as if it were cut.
HOW_TO_SCROLL = "If the figure is wider than the page, scroll it sideways, or click on it and use the arrow keys."


class AttentionView:
    """Computes attention and caches it for the latest sentences: showing another head needs no new search."""

    def __init__(self):
        self._kept: OrderedDict[tuple, SentenceAttention] = OrderedDict()
        self._lock = Lock()

    def attention(
        self, loaded: LoadedModel, text: str, target: str | None, languages: Languages = NO_LANGUAGES
    ) -> SentenceAttention:
        """The attention between a sentence and its translation, by default the model's own."""
        check_text(text, LONGEST_FIGURE)
        target = check_text(target, LONGEST_FIGURE, "translation") if target and not is_blank(target) else None
        if not loaded.has_attention:
            raise InputError(
                f"{loaded.name} was exported to an engine that exposes no attention. Choose another model."
            )
        key = (loaded.name, text, target, languages)
        attention = self._kept.get(key)
        if attention is None:
            with loaded.lock, user_errors():
                # The pipeline checks the languages, and knows the prefix that the model expects before a text.
                pipeline = loaded.pipeline(languages)
                tokenizer = private_copy(loaded.tokenizer)
                settings = set_languages(
                    loaded.model, tokenizer, languages.arguments() if loaded.choices.sources else {}
                )
                [marked] = mark_target(tokenizer, [text], languages.target, pipeline.prefix)
                attention = sentence_attention(loaded.model, tokenizer, marked, target, **settings)
            with self._lock:  # other visitors add to it, too
                self._kept[key] = attention
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
        return attention


def layers_and_heads(attention: SentenceAttention, kind: str) -> tuple[list[str], list[str]]:
    """The choices of layers and of heads: the mean, all, or a single one, counted from 0."""
    layers, heads = getattr(attention.weights, kind).shape[1:3]
    return [MEAN, ALL, *map(str, range(layers))], [MEAN, ALL, *map(str, range(heads))]


def _parse(choice: str | None) -> Which:
    """A choice made on the page, as a number, "all", or None for the mean."""
    if choice in (None, "", MEAN):
        return None
    return ALL if choice == ALL else int(choice)


def draw(attention: SentenceAttention, kind: str, layer: str | None, head: str | None) -> str:
    """A heat map as HTML."""
    chosen = _parse(layer), _parse(head)
    if errors := selection_errors(attention, kind, *chosen):
        raise InputError.of(errors)
    with user_errors():
        content = io.BytesIO()
        attention_figure(attention, kind, *chosen).savefig(content, format="png", dpi=110)
    picture = base64.b64encode(content.getvalue()).decode()
    return image(picture, _describe(attention, kind, *chosen), f"Translation: {attention.translation}")


def _describe(attention: SentenceAttention, kind: str, layer: Which, head: Which) -> str:
    """A heat map in words: what each token attends to most, in the mean of the layers and heads shown."""
    weights = getattr(attention.weights, kind)[0]
    weights = weights[[layer]] if isinstance(layer, int) else weights
    weights = weights[:, [head]] if isinstance(head, int) else weights
    target = attention.target_tokens
    rows = attention.source_tokens if kind == "encoder" else target[1:]
    columns = target[:-1] if kind == "decoder" else attention.source_tokens
    strongest = weights.mean((0, 1)).argmax(-1).tolist()
    looks = ", ".join(f"{row} at {columns[column]}" for row, column in zip(rows, strongest))
    return f"{KINDS[kind].capitalize()}. Most attention: {looks}."


def search_figure(loaded: LoadedModel, text: str, num_beams: int, languages: Languages = NO_LANGUAGES) -> str:
    """The tree of a search, and why it ended, as HTML."""
    check_text(text, LONGEST_FIGURE)
    if not 1 <= num_beams <= MOST_BEAMS:
        raise InputError(f"1 to {MOST_BEAMS} beams can be drawn, not {num_beams}.")
    if errors := search_errors(loaded.model, {"num_beams": num_beams}):
        raise InputError.of(errors)
    with loaded.lock, user_errors():
        pipeline = loaded.pipeline(languages)
        [marked] = mark_target(loaded.tokenizer, [text], languages.target, pipeline.prefix)
        tree = beam_tree(loaded.model, loaded.tokenizer, marked, num_beams=num_beams)
    drawn = figure(beam_tree_svg(tree), "Beam search")
    return paragraphs(HOW_TO_SCROLL) + drawn + paragraphs(stop_line(tree), settings_line(tree))
