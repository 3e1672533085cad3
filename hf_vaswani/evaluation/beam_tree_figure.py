"""The tree of a beam search, and its SVG figure: a column for each step, with its candidates, best first.

The figure keeps its text as text, which browsers draw in their own fonts: they join Arabic letters, set right-to-left
words in order, and have Chinese and Japanese characters.
"""

import textwrap
import unicodedata
from dataclasses import dataclass
from html import escape
from typing import Literal

from ..core.generation_beam_search import Scoring

Fate = Literal["kept", "finished", "pruned"]
# Pixels.
BOX_HEIGHT, BAND_HEIGHT, ROW_GAP, COLUMN_GAP, MARGIN, LINE_HEIGHT, NARROWEST_BOX = 36, 15, 10, 36, 14, 18, 100
ROW = BOX_HEIGHT + BAND_HEIGHT + ROW_GAP
NARROW, WIDE = 8, 15  # widths of a token's characters, on the generous side: fonts differ
LETTER = 6.6  # mean width in sentences
LONGEST_TOKEN = 16  # characters; longer ones are cut
NARROWEST_FIGURE = 660
# All rules begin with the figure's class, so that they change nothing else in a notebook or a page.
STYLE = """
.beam-tree text { font-family: system-ui, "Noto Sans", "Noto Sans CJK SC", sans-serif; font-size: 12px; fill: #1c1c1c;
  unicode-bidi: plaintext }
.beam-tree .token { font-size: 14px; text-anchor: middle }
.beam-tree .score { font-size: 10.5px; text-anchor: middle; fill: #444 }
.beam-tree .band { font-size: 10.5px; text-anchor: middle; fill: #fff; font-weight: bold }
.beam-tree .step { font-size: 12px; text-anchor: middle; fill: #444 }
.beam-tree .title { font-size: 14px }
.beam-tree .box { fill: #fff; stroke: #37474f; stroke-width: 1.3 }
.beam-tree path { fill: none; stroke: #37474f; stroke-width: 1.3 }
.beam-tree .pruned .box { stroke: #b8b8b8; stroke-dasharray: 4 3 }
.beam-tree .pruned text { fill: #6f6f6f }
.beam-tree path.pruned { stroke: #c4c4c4; stroke-dasharray: 4 3 }
.beam-tree .finished .box { stroke: #1b7837; stroke-width: 2 }
.beam-tree .finished rect.band { fill: #1b7837 }
.beam-tree .out .box { stroke: #6f6f6f }
.beam-tree .out rect.band { fill: #6f6f6f }
.beam-tree .best .box { fill: #e3effa; stroke-width: 2.4 }
.beam-tree path.best { stroke: #1565c0; stroke-width: 3 }
.beam-tree .best:not(.finished) .box { stroke: #1565c0 }
.beam-tree a:focus { outline: none }
.beam-tree a:focus .box, .beam-tree a:hover .box { stroke: #c2410c; stroke-width: 3.5; stroke-dasharray: none }
""".strip()
LEGEND = (
    "Boxes: token, its log-probability, Σ of all so far. Solid: kept; dashed: pruned; green: finished, with rank and "
    "Σ divided by the length penalty; gray band: finished and pushed out by better ones; blue: the output."
)
PAGE_STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, "Noto Sans", sans-serif; margin: 0 auto; padding: 1rem; max-width: 80rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.2rem; margin-top: 2rem } h3 { font-size: 1rem; margin-bottom: .3rem }
dt { font-weight: bold } dd { margin: 0 0 .4rem }
.scroll { overflow-x: auto } .figure { border: 1px solid #8888; border-radius: 6px; background: #fff }
.figure svg { display: block }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { text-align: left; padding: .15rem .7rem; border-bottom: 1px solid #8885 }
td.hypothesis { min-width: 14rem }
td.number, th.number { text-align: right; white-space: nowrap }
tr.pruned { opacity: .72 } tr.finished { font-weight: bold } tr:target { outline: 3px solid #c2410c }
:focus-visible { outline: 3px solid #c2410c; outline-offset: 2px }
.skip { position: absolute; left: -99rem } .skip:focus { position: static }
""".strip()
HEADERS = ("token", "hypothesis", "log-probability", "sum", "what became of it")
RANKING_HEADERS = ("rank", "hypothesis", "tokens", "sum", "divided by the length penalty")
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


def beam_tree_svg(tree: BeamTree, links: bool = False) -> str:
    """Draw a search as a self-contained SVG document. Boxes show their numbers in full when pointed at.

    Args:
        links: for a page that has the anchors `#candidate-NUMBER` and explains the figure itself: each box becomes a
            link to its anchor, which the keyboard reaches, too, and the legend is left out.
    """
    columns = _Columns(tree)
    width = max(columns.right + MARGIN, NARROWEST_FIGURE)
    top = [
        (line, "title")
        for line in [*_lines(f"source: {isolated(tree.source)}", width), *_lines(output_line(tree), width)]
    ]
    bottom = [] if links else [*_lines(stop_line(tree), width), *_lines(LEGEND, width)]
    first_row = MARGIN + (len(top) + 1) * LINE_HEIGHT + 12
    rows = max(len(step.candidates) for step in tree.steps)
    end_of_rows = first_row + rows * ROW
    height = end_of_rows + len(bottom) * LINE_HEIGHT + MARGIN
    on_best = {part.number for part in tree.path(tree.best)} if tree.ranking else set()
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="beam-tree" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="{"group" if links else "img"}" '
        f'aria-label="{text("Beam search, " + output_line(tree))}">',
        f"<style>{STYLE}</style>",
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    parts += _text_lines(top, MARGIN + 12)
    parts += [
        f'<text class="step" x="{columns.center(number):.0f}" y="{first_row - 10}">'
        f"{'start' if number == 0 else f'step {number}'}</text>"
        for number in range(len(tree.steps) + 1)
    ]
    places = {
        number: (step.number, first_row + row * ROW)
        for step in tree.steps
        for row, number in enumerate(step.candidates)
    }
    # The most important paths are drawn last, over the others.
    by_importance = sorted(tree.candidates, key=lambda c: (c.number in on_best, c.fate != "pruned"))
    for candidate in by_importance:
        column, y = places[candidate.number]
        parent_y = first_row if candidate.parent is None else places[candidate.parent][1]
        kind = "best" if candidate.number in on_best else candidate.fate
        x0, x1 = columns.right_of(column - 1), columns.left_of(column)
        middle, y0, y1 = (x0 + x1) / 2, parent_y + BOX_HEIGHT / 2, y + BOX_HEIGHT / 2
        parts.append(f'<path class="{kind}" d="M{x0:.0f} {y0:.0f}C{middle:.0f} {y0:.0f} {middle:.0f} {y1:.0f} '
                     f'{x1:.0f} {y1:.0f}"/>')  # fmt: skip
    parts.append(_box("best" if on_best else "kept", columns, 0, first_row, " ".join(tree.prompt_tokens), "start"))
    for candidate in tree.candidates:
        column, y = places[candidate.number]
        parts.append(_candidate(candidate, columns, column, y, candidate.number in on_best, links))
    parts += _text_lines([(line, "note") for line in bottom], end_of_rows + 12)
    return "\n".join([*parts, "</svg>\n"])


class _Columns:
    """Positions of the columns: one for each step, after a first one that holds the prompt."""

    def __init__(self, tree: BeamTree):
        names = [[" ".join(tree.prompt_tokens)]]
        names += [[tree.candidates[number].token for number in step.candidates] for step in tree.steps]
        self.widths = [max(NARROWEST_BOX, *(16 + _width(cut(name)) for name in column)) for column in names]
        self.lefts = [MARGIN + sum(self.widths[:i]) + i * COLUMN_GAP for i in range(len(names))]
        self.right = self.lefts[-1] + self.widths[-1]

    def left_of(self, column: int) -> float:
        return self.lefts[column]

    def right_of(self, column: int) -> float:
        return self.lefts[column] + self.widths[column]

    def center(self, column: int) -> float:
        return self.lefts[column] + self.widths[column] / 2


def _candidate(candidate: BeamCandidate, columns: _Columns, column: int, y: float, is_best: bool, links: bool) -> str:
    is_out = candidate.fate == "finished" and not candidate.rank
    classes = " ".join([candidate.fate, *["best"] * is_best, *["out"] * is_out])
    scores = f"{number_text(candidate.log_probability)}  Σ {number_text(candidate.score)}"
    band = band_text(candidate) if candidate.fate == "finished" else ""
    box = _box(classes, columns, column, y, candidate.token, scores, band, description(candidate))
    if not links:
        return box
    return f'<a href="#candidate-{candidate.number}" aria-label="{text(description(candidate))}">{box}</a>'


def _box(
    classes: str, columns: _Columns, column: int, y: float, token: str, scores: str, band: str = "", title: str = ""
) -> str:
    left, width, center = columns.lefts[column], columns.widths[column], columns.center(column)
    parts = [f'<g class="{classes}">']
    if title:
        parts.append(f"<title>{text(title)}</title>")
    if band:
        parts.append(
            f'<rect class="band" x="{left:.0f}" y="{y + BOX_HEIGHT - 4:.0f}" width="{width:.0f}" '
            f'height="{BAND_HEIGHT + 4}" rx="5"/>'
        )
    parts.append(
        f'<rect class="box" x="{left:.0f}" y="{y:.0f}" width="{width:.0f}" height="{BOX_HEIGHT}" rx="5"/>'
        f'<text class="token" x="{center:.0f}" y="{y + 16:.0f}">{text(cut(token))}</text>'
        f'<text class="score" x="{center:.0f}" y="{y + 30:.0f}">{text(scores)}</text>'
    )
    if band:
        parts.append(f'<text class="band" x="{center:.0f}" y="{y + BOX_HEIGHT + 11:.0f}">{text(band)}</text>')
    return "".join([*parts, "</g>"])


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


def _text_lines(lines: list[tuple[str, str]], y: float) -> list[str]:
    return [
        f'<text class="{kind}" x="{MARGIN}" y="{y + number * LINE_HEIGHT:.0f}">{text(line)}</text>'
        for number, (line, kind) in enumerate(lines)
    ]


def beam_tree_page(tree: BeamTree) -> str:
    """A search as an HTML document."""
    facts = {
        "Source": tree.source,
        "Source tokens": " ".join(tree.source_tokens),
        "Output": tree.translation if tree.ranking else "none",
        "Settings": settings_line(tree),
    }
    parts = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>Beam search: {text(tree.source)}</title>\n<style>{PAGE_STYLE}</style>\n</head>\n<body>\n<main>",
        "<h1>Beam search</h1>\n<dl>",
        *(f'<dt>{name}</dt><dd dir="auto">{text(value)}</dd>' for name, value in facts.items()),
        "</dl>",
        "<h2>The tree</h2>",
        f"<p>{text(LEGEND)} Each box leads to its numbers below.</p>",
        '<p><a class="skip" href="#ranking">Skip the figure: finished hypotheses</a></p>',
        '<div class="figure scroll" role="region" aria-label="The tree as a figure" tabindex="0">',
        beam_tree_svg(tree, links=True).rstrip(),
        "</div>",
        '<h2 id="ranking">Finished hypotheses</h2>',
        _table(RANKING_HEADERS, [_ranked(tree, candidate) for candidate in tree.ranking]),
        f"<p>{text(stop_line(tree))}</p>",
        "<h2>Step by step</h2>",
    ]
    for step in tree.steps:
        rows = [_row(tree, tree.candidates[number]) for number in step.candidates]
        parts += [f"<h3>Step {step.number}</h3>", _table(HEADERS, rows)]
        if step.reachable is not None and step.finished:
            best = tree.candidates[step.finished[0]].penalized_score
            parts.append(
                f"<p>Best finished score so far: {number_text(best, 4)}. A running hypothesis could still reach "
                f"{number_text(step.reachable, 4)}.</p>"
            )
    return "\n".join([*parts, "</main>\n</body>\n</html>\n"])


def _ranked(tree: BeamTree, candidate: BeamCandidate) -> str:
    penalized = "" if candidate.penalized_score is None else number_text(candidate.penalized_score, 4)
    return (
        f'<tr><td class="number">{candidate.rank}</td><td class="hypothesis">{_hypothesis(tree, candidate)}</td>'
        f'<td class="number">{candidate.step}</td><td class="number">{number_text(candidate.score, 4)}</td>'
        f'<td class="number">{penalized}</td></tr>'
    )


def _row(tree: BeamTree, candidate: BeamCandidate) -> str:
    return (
        f'<tr id="candidate-{candidate.number}" class="{candidate.fate}">'
        f"<td><bdi>{text(candidate.token)}</bdi></td>"
        f'<td class="hypothesis">{_hypothesis(tree, candidate)}</td>'
        f'<td class="number">{number_text(candidate.log_probability, 4)}</td>'
        f'<td class="number">{number_text(candidate.score, 4)}</td><td>{fate_text(candidate)}</td></tr>'
    )


def _hypothesis(tree: BeamTree, candidate: BeamCandidate) -> str:
    return f"<bdi>{text(' '.join(part.token for part in tree.path(candidate)))}</bdi>"


def _table(headers: tuple[str, ...], rows: list[str]) -> str:
    kinds = {True: ' class="number"', False: ""}
    cells = "".join(f'<th scope="col"{kinds[name in NUMBERS]}>{name}</th>' for name in headers)
    return f'<div class="scroll"><table>\n<tr>{cells}</tr>\n' + "\n".join(rows) + "\n</table></div>"
