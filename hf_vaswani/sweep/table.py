"""A sweep and its results: its combinations compared, `sweep.json`, and the table in its README."""

import json
import math
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ..errors import InputError, counted
from ..evaluation.score import bleu
from ..evaluation.score_settings import ScoreSettings
from ..evaluation.seed_bootstrap import RESAMPLES, Difference, seed_bootstrap
from ..files import collect_errors, reading
from ..training.checkpoints.artifacts import TRANSLATIONS
from ..training.setup.splits import load_test_sets
from .request import BLEU, LOSS, Row, Run, SweepRequest
from .search import Space

NOTHING = "–"
# How the values of runs are written; all others are scores.
FORMS = {"parameters": ",.0f", "steps": ",.0f", "minutes": ",.1f", LOSS: ".4f"}
METHOD = (
    "± is the sample standard deviation over seeds. Δ BLEU is the difference from the first row, with its 95% "
    f"confidence interval and p-value: a paired bootstrap with {RESAMPLES:,} replicates, each of which draws "
    "sentences (Koehn 2004) and, for each row, seeds, both with replacement. If rows have only one seed, Δ BLEU does "
    "not show how much another seed would change it. With many rows, some p-values are low by chance."
)


@dataclass
class Sweep:
    """A sweep: what is asked for, and the results so far.

    Attributes:
        space: of a search; empty for others.
        rows: one for each combination of values; those that a search proposes are added.
        notes: why differences are missing.
        losses_compare: whether the validation losses of all runs can be compared.
        figure: the file with the learning curves, if they could be drawn.
    """

    request: SweepRequest
    folder: Path
    space: Space
    rows: list[Row]
    notes: list[str] = field(default_factory=list)
    losses_compare: bool = True
    figure: str | None = None

    @property
    def failed(self) -> list[Run]:
        """The runs that failed."""
        return [run for row in self.rows for run in row.runs if run.error]

    @property
    def values(self) -> list[str]:
        """The names of all values of runs."""
        return list(dict.fromkeys(name for row in self.rows for run in row.runs for name in run.values))

    def to_json(self) -> str:
        """The content of `sweep.json`: all of this, and the mean and deviation of each value of a row."""
        content = {name: getattr(self.request, name) for name in ("recipe", "options", "search", "seeds")}
        content["rows"] = [row.to_json(self.values) for row in self.rows]
        content |= {name: getattr(self, name) for name in ("notes", "losses_compare", "figure")}
        return json.dumps(content, indent=2, ensure_ascii=False) + "\n"

    def page(self) -> str:
        """The sweep's README."""
        request = self.request
        about = f"{counted(len(self.rows), 'combination')}, each with {counted(len(request.seeds), 'seed')}"
        parts = [f"# Sweep of {request.recipe}", f"{about}: {', '.join(request.seeds)}."]
        parts += [f"Further keys: `{' '.join(request.options)}`"] if request.options else []
        parts += [result_table(self), best_line(self), METHOD if len(self.rows) > 1 else METHOD.partition(" Δ")[0]]
        parts.append("\n".join(f"- {note}" for note in self.notes))
        parts.append("\n".join(f"- {run.folder.name} failed: {run.error}" for run in self.failed))
        parts += [f"![Learning curves of all runs]({self.figure})"] if self.figure else []
        return "\n\n".join(filter(None, parts)) + "\n"


def result_table(sweep: Sweep) -> str:
    """The table in Markdown, with a row for each combination."""
    rows, keys = sweep.rows, list(dict.fromkeys(key for row in sweep.rows for key in row.keys))
    columns = [["row", *(row.name for row in rows)]] if not keys or any(row.is_named for row in rows) else []
    columns += [[key, *(row.keys.get(key, "") for row in rows)] for key in keys]
    columns.append(["runs", *(_count_finished(row) for row in rows)])
    for name in sweep.values:
        columns.append([name, *(_write_spread(row, name) for row in rows)])
        if name.endswith(BLEU) and len(rows) > 1:
            test = name.removesuffix(BLEU)
            found = [_write_difference(row.differences.get(test)) for row in rows[1:]]
            columns += [[f"{test} Δ BLEU", "", *(cell for cell, _ in found)], ["p", "", *(cell for _, cell in found)]]
    widths = [max(3, *map(len, column)) for column in columns]
    lines = [[cell.replace("|", "\\|") for cell in line] for line in zip(*columns)]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(f"| {' | '.join(cell.ljust(width) for cell, width in zip(line, widths))} |" for line in lines)


def best_line(sweep: Sweep) -> str:
    """A sentence that names the row with the lowest validation loss; empty if there are not two to compare."""
    rows = [row for row in sweep.rows if row.full_loss < math.inf]
    if len(rows) < 2 or not sweep.losses_compare:
        return ""
    best = min(rows, key=lambda row: row.full_loss)
    values = ", ".join(f"{key} {text}" for key, text in best.keys.items())
    what = f"{best.name} ({values})" if best.is_named and values else values or best.name
    return f"Lowest validation loss: {what}, {best.full_loss:.4f}."


def _count_finished(row: Row) -> str:
    number, total = len(row.finished), len(row.runs)
    return str(number) if number == total else f"{number} of {total}"


def _write_spread(row: Row, name: str) -> str:
    form = FORMS.get(name, ".2f")
    mean, deviation = row.spread(name) or (None, None)
    return NOTHING if mean is None else f"{mean:{form}}" + (f" ± {deviation:{form}}" if deviation else "")


def _write_difference(difference: Difference | None) -> tuple[str, str]:
    if difference is None:
        return NOTHING, NOTHING
    p_value = "< 0.001" if difference.p_value < 0.001 else f"{difference.p_value:.3f}"
    return f"{difference.value:+.2f} [{difference.low:+.2f}, {difference.high:+.2f}]", p_value


def compare(rows: list[Row]) -> list[str]:
    """Set the differences in BLEU from the first row; return a line for each reason why one is missing."""
    notes: list[str] = []
    if len(rows) < 2 or not rows[0].finished:
        return notes
    run = rows[0].finished[0]
    tests = collect_errors(notes, partial(load_test_sets, run.recipe.data)) or {}
    for test, pairs in tests.items():
        settings = ScoreSettings(run.recipe.evaluation.tokenize, "case:lc" in str(run.report.tests.get(test)))
        score = partial(bleu, references=[pair[1] for pair in pairs], **settings.arguments()["bleu"])
        read = [collect_errors(notes, partial(_read_translations, row.finished, test, score)) for row in rows]
        compared = [(row, texts) for row, texts in zip(rows, read) if texts]
        if read[0] and len(compared) > 1:
            differences = seed_bootstrap([texts for _, texts in compared], **score.keywords)
            for (row, _), difference in zip(compared[1:], differences):
                row.differences[test] = difference
    return notes


def losses_compare(runs: list[Run]) -> bool:
    """Whether validation losses can be compared: per token of one vocabulary, on one text."""
    texts = {str(run.report.trail and run.report.trail.texts.get("validation")) for run in runs}
    files = [sorted(run.folder.glob("*tokenizer.json")) for run in runs]
    tokens = {str([json.loads(path.read_bytes())["model"]["vocab"] for path in paths]) for paths in files}
    return len(texts) < 2 and len(tokens) < 2


def _read_translations(runs: list[Run], test: str, score: partial) -> list[list[str]]:
    """The translations of a test set by each run.

    Raises:
        InputError: one cannot be read, or its run computed another BLEU for it: it had other references or settings.
    """
    systems = []
    for run in runs:
        path, tests = run.folder / f"{test}{TRANSLATIONS}", run.report.tests
        with reading(path):
            lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
        value = score(lines).value if len(lines) == len(score.keywords["references"]) else math.nan
        if test not in tests or not math.isclose(value, tests[test].bleu, abs_tol=1e-6):
            raise InputError(f"{path}: not compared, as it was scored on another text or in another way.")
        systems.append(lines)
    return systems
