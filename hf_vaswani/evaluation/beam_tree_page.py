"""Writes a beam search as a standalone HTML page: the figure, and all of its numbers in tables, readable anywhere.

The page needs no scripts and loads nothing. Each box of the figure links to its row in the tables.
"""

from .beam_tree import BeamCandidate, BeamTree
from .beam_tree_figure import (
    LEGEND,
    beam_tree_svg,
    fate_text,
    number_text,
    settings_line,
    stop_line,
    text,
)

STYLE = """
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
        f"<title>Beam search: {text(tree.source)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>",
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
