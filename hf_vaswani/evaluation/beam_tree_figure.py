"""The tree of a beam search, and its SVG figure: a column for each step, with its candidates, best first.

The figure keeps its text as text, which browsers draw in their own fonts: they join Arabic letters, set right-to-left
words in order, and have Chinese and Japanese characters. Its markup is in `beam_tree.svg.jinja`; the markup of the
page around it is in `beam_tree.html.jinja`.
"""

import textwrap
import unicodedata
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Literal, NamedTuple

import jinja2

from ..core.generation_beam_search import Scoring

Fate = Literal["kept", "finished", "pruned"]
# Pixels; the heights are also in the template.
BOX_HEIGHT, ROW, COLUMN_GAP, MARGIN, LINE_HEIGHT, NARROWEST_BOX, NARROWEST_FIGURE = 36, 61, 36, 14, 18, 100, 660
NARROW, WIDE = 8, 15  # widths of a token's characters, on the generous side: fonts differ
LETTER = 6.6  # mean width in sentences
LONGEST_TOKEN = 16  # characters; longer ones are cut
LEGEND = (
    "Boxes: token, its log-probability, Σ of all so far. Solid: kept; dashed: pruned; green: finished, with rank and "
    "Σ divided by the length penalty; gray band: finished and pushed out by better ones; blue: the output."
)
NUMBERS = ("log-probability", "sum", "rank", "tokens", "divided by the length penalty")


@dataclass(frozen=True)
class BeamCandidate:
    """A hypothesis extended by one token, as considered in one step of the search.

    Attributes:
        number: its index in `BeamTree.candidates`.
        step: the step that considered it, from 1; also its number of tokens.
        parent: number of the candidate that it extends; None at the first step.
        log_probability: natural logarithm, of its last token, after logits processors.
        score: sum of the log-probabilities of all its tokens, by which the candidates of a step are ranked.
        fate: `"kept"` if the search continued it, `"finished"` if it ended among the best of its step, or `"pruned"`.
        is_end: whether it ended, by an end token or at the longest length. A pruned candidate may have ended, too:
            those beyond the beam do not count.
        penalized_score: the score divided by the length penalty, by which finished hypotheses are ranked; None if it
            is not finished, and in greedy search, which ranks nothing.
        rank: its rank among the finished hypotheses at the end of the search, 1 for the best; None if it is not
            finished, or was pushed out by better ones.
    """

    number: int
    step: int
    parent: int | None
    token_id: int
    token: str
    log_probability: float
    score: float
    fate: Fate
    is_end: bool
    penalized_score: float | None = None
    rank: int | None = None


@dataclass(frozen=True)
class BeamStep:
    """One step of the search.

    Attributes:
        number: from 1.
        candidates: numbers of the candidates that it considered, best first.
        finished: numbers of the finished hypotheses after this step, best first.
        reachable: the best penalized score that a running hypothesis could still reach; None in greedy search, and if
            no hypothesis is running.
    """

    number: int
    candidates: tuple[int, ...]
    finished: tuple[int, ...]
    reachable: float | None


@dataclass(frozen=True)
class BeamTree:
    """The search for the translation of one text.

    Attributes:
        source_tokens: as the encoder reads them, special tokens included.
        prompt_tokens, prompt_ids: what the output begins with: the decoder's start token, and any prefix given.
        candidates: the candidates of all steps, step by step.
        stop_reason: why the search ended after the last step.
        scoring: how hypotheses of different lengths are compared, and when the search ends; None for greedy search.
    """

    source: str
    source_tokens: tuple[str, ...]
    prompt_tokens: tuple[str, ...]
    prompt_ids: tuple[int, ...]
    candidates: tuple[BeamCandidate, ...]
    steps: tuple[BeamStep, ...]
    stop_reason: str
    translation: str
    num_beams: int
    scoring: Scoring | None

    @property
    def ranking(self) -> tuple[BeamCandidate, ...]:
        """The finished hypotheses at the end, best first."""
        return tuple(self.candidates[number] for number in self.steps[-1].finished)

    @property
    def best(self) -> BeamCandidate:
        """The last candidate of the hypothesis that `generate()` returns."""
        return self.ranking[0]

    def path(self, candidate: BeamCandidate) -> tuple[BeamCandidate, ...]:
        """The candidates that make up a hypothesis, from its first token to the given candidate."""
        path = [candidate]
        while path[-1].parent is not None:
            path.append(self.candidates[path[-1].parent])
        return tuple(reversed(path))

    def _repr_svg_(self) -> str:
        """The figure of the tree, which Jupyter shows."""
        return beam_tree_svg(self)

    def output_ids(self, candidate: BeamCandidate) -> tuple[int, ...]:
        """The token ids of a hypothesis as `generate()` returns it, the prompt first."""
        return (*self.prompt_ids, *(part.token_id for part in self.path(candidate)))


class Column(NamedTuple):
    """The place of a step in the figure, in pixels."""

    left: float
    width: float

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def center(self) -> float:
        return self.left + self.width / 2


def beam_tree_svg(tree: BeamTree, links: bool = False) -> str:
    """Draw a search as a self-contained SVG document. Boxes show their numbers in full when pointed at.

    Args:
        links: for a page that has the anchors `#candidate-NUMBER` and explains the figure itself: each box becomes a
            link to its anchor, which the keyboard reaches, too, and the legend is left out.
    """
    columns: list[Column] = []
    steps = [[tree.candidates[number].token for number in step.candidates] for step in tree.steps]
    for tokens in [[" ".join(tree.prompt_tokens)], *steps]:
        left = columns[-1].right + COLUMN_GAP if columns else MARGIN
        columns.append(Column(left, max(NARROWEST_BOX, *(16 + _width(cut(token)) for token in tokens))))
    width = max(columns[-1].right + MARGIN, NARROWEST_FIGURE)
    top = [*_lines(f"source: {isolated(tree.source)}", width), *_lines(output_line(tree), width)]
    bottom = [] if links else [*_lines(stop_line(tree), width), *_lines(LEGEND, width)]
    first_row = MARGIN + (len(top) + 1) * LINE_HEIGHT + 12
    end_of_rows = first_row + max(map(len, steps)) * ROW
    rows = {number: first_row + row * ROW for step in tree.steps for row, number in enumerate(step.candidates)}
    best = {part.number for part in tree.path(tree.best)} if tree.ranking else set()
    lines = []
    # The most important ones are drawn last, over the others.
    for candidate in sorted(tree.candidates, key=lambda c: (c.number in best, c.fate != "pruned")):
        x0, x1 = columns[candidate.step - 1].right, columns[candidate.step].left
        y0 = BOX_HEIGHT / 2 + (first_row if candidate.parent is None else rows[candidate.parent])
        kind = "best" if candidate.number in best else candidate.fate
        ends = {"x0": x0, "y0": y0, "x1": x1, "y1": rows[candidate.number] + BOX_HEIGHT / 2}
        lines.append({"kind": kind, "middle": (x0 + x1) / 2, **ends})
    return _render(
        "beam_tree.svg.jinja", tree=tree, links=links, columns=columns, width=width, top=top, bottom=bottom,
        height=end_of_rows + len(bottom) * LINE_HEIGHT + MARGIN, first_row=first_row, end_of_rows=end_of_rows,
        rows=rows, best=best, lines=lines, output_line=output_line(tree),
    )  # fmt: skip


def beam_tree_page(tree: BeamTree) -> str:
    """A search as an HTML document."""
    return _render(
        "beam_tree.html.jinja", tree=tree, figure=beam_tree_svg(tree, links=True).rstrip(), legend=LEGEND,
        numbers=NUMBERS, settings_line=settings_line(tree), stop_line=stop_line(tree),
        candidates=lambda step: [tree.candidates[number] for number in step.candidates],
    )  # fmt: skip


def _render(template: str, **values: object) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), trim_blocks=True, keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    environment.filters |= {"text": text, "cut": cut, "number": number_text, "px": "{:.0f}".format}
    environment.globals |= {"band_text": band_text, "description": description, "fate_text": fate_text}
    return environment.get_template(template).render(**values)


def band_text(candidate: BeamCandidate) -> str:
    """Rank and penalized score of a finished hypothesis, as far as it has them."""
    rank = f"#{candidate.rank}" if candidate.rank else "out"
    return rank if candidate.penalized_score is None else f"{rank}  {number_text(candidate.penalized_score)}"


def description(candidate: BeamCandidate) -> str:
    """A candidate in words."""
    parts = [
        f"step {candidate.step}: {candidate.token}",
        fate_text(candidate),
        f"log-probability {number_text(candidate.log_probability, 4)}",
        f"sum {number_text(candidate.score, 4)}",
    ]
    if candidate.penalized_score is not None:
        parts.append(f"divided by the length penalty {number_text(candidate.penalized_score, 4)}")
    return ", ".join(parts)


def fate_text(candidate: BeamCandidate) -> str:
    """What became of a candidate, in words."""
    if candidate.fate == "finished":
        return f"finished, rank {candidate.rank}" if candidate.rank else "finished, pushed out by better ones"
    if candidate.fate == "pruned" and candidate.is_end:
        return "pruned: it ended, but was not among the best"
    return candidate.fate


def output_line(tree: BeamTree) -> str:
    return f"output: {isolated(tree.translation)}" if tree.ranking else "no output"


def isolated(sentence: str) -> str:
    """A sentence between Unicode isolates, so that its direction does not affect the text before it."""
    return f"\N{FIRST STRONG ISOLATE}{sentence}\N{POP DIRECTIONAL ISOLATE}"


def stop_line(tree: BeamTree) -> str:
    """When and why the search ended."""
    return f"The search ended at step {len(tree.steps)}: {tree.stop_reason}."


def settings_line(tree: BeamTree) -> str:
    """The settings of the search."""
    if tree.scoring is None:
        return "num_beams=1: greedy search"
    return (
        f"num_beams={tree.num_beams}, length_penalty={tree.scoring.length_penalty:g}, "
        f"length_penalty_type={tree.scoring.length_penalty_type}, early_stopping={tree.scoring.early_stopping}"
    )


def number_text(number: float, digits: int = 2) -> str:
    """A number with a proper minus sign; no minus before zero."""
    return f"{round(number, digits) + 0.0:.{digits}f}".replace("-", "−")


def text(raw: str) -> str:
    """Escape a text for XML and HTML, with spaces in place of unprintable characters, which XML may forbid."""
    return escape("".join(c if c.isprintable() or unicodedata.category(c) == "Cf" else " " for c in raw))


def cut(token: str) -> str:
    return token if len(token) <= LONGEST_TOKEN else f"{token[: LONGEST_TOKEN - 1]}…"


def _width(token: str) -> float:
    """A generous guess at the width of a token."""
    return sum(
        0 if unicodedata.combining(c) else WIDE if unicodedata.east_asian_width(c) in "WF" else NARROW for c in token
    )


def _lines(sentence: str, width: float) -> list[str]:
    """Wrap a sentence into lines that fit a figure of this width, in pixels."""
    has_wide = any(unicodedata.east_asian_width(c) in "WF" for c in sentence)
    return textwrap.wrap(sentence, int((width - 2 * MARGIN) / (12.5 if has_wide else LETTER)))
