"""The beam search of a sentence as a figure."""

from ..errors import InputError
from ..evaluation.beam_tree import beam_tree, search_errors
from ..evaluation.beam_tree_figure import beam_tree_svg, settings_line, stop_line
from .limits import LONGEST_FIGURE, MOST_BEAMS, check_text
from .models import LoadedModel
from .problems import explained
from .views import figure, paragraphs

# Browsers may hide the scrollbar, so that a wide figure looks as if it were cut.
HOW_TO_SCROLL = "If the figure is wider than the page, scroll it sideways, or click on it and use the arrow keys."


def search_figure(loaded: LoadedModel, text: str, num_beams: int) -> str:
    """The tree of a search, and why it ended, as HTML.

    Raises:
        InputError: the text is empty or too long, the number of beams is not allowed, or the model's search cannot be
            recorded.
    """
    check_text(text, LONGEST_FIGURE)
    if not 1 <= num_beams <= MOST_BEAMS:
        raise InputError(f"1 to {MOST_BEAMS} beams can be drawn, not {num_beams}.")
    if errors := search_errors(loaded.model, {"num_beams": num_beams}):
        raise InputError.of(errors)
    with loaded.lock, explained():
        tree = beam_tree(loaded.model, loaded.tokenizer, text, num_beams=num_beams)
    drawn = figure(beam_tree_svg(tree), "Beam search")
    return paragraphs(HOW_TO_SCROLL) + drawn + paragraphs(stop_line(tree), settings_line(tree))
