"""A table that compares variants of a model, each trained with several seeds.

It has means with standard deviations, and differences in BLEU from the first variant, with a bootstrap over sentences
and seeds. `scripts/sweep.py` trains the runs.
"""

import json
import math
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..files import collect_errors, reading, replace_files
from ..records.run_report import RunReport, read_report
from .curves import draw_curves
from .score import bleu
from .score_settings import ScoreSettings
from .seed_bootstrap import RESAMPLES, Difference, seed_bootstrap

NOTHING = "–"
# Names of the results of runs: BLEU follows the name of a test set.
LOSS, BLEU = "validation loss", " BLEU"
# How the values of runs are written; all others are scores.
FORMS = {"parameters": ",.0f", "steps": ",.0f", "minutes": ",.1f", LOSS: ".4f"}
METHOD = (
    "± is the sample standard deviation over seeds. Δ BLEU is the difference from the first row, with its 95% "
    f"confidence interval and p-value: a paired bootstrap with {RESAMPLES:,} replicates, each of which draws "
    "sentences (Koehn 2004) and, for each row, seeds, both with replacement. If rows have only one seed, Δ BLEU does "
    "not show how much another seed would change it. With many rows, some p-values are low by chance."
)


@dataclass
class Run:
    """A training run: its results are in its folder, unless something went wrong."""

    seed: str
    folder: Path
    error: str | None = None

    @cached_property
    def report(self) -> RunReport | None:
        """Its results, or `None` if it failed."""
        errors: list[str] = []
        report = None if self.error else collect_errors(errors, partial(read_report, self.folder))
        self.error = self.error or next(iter(errors), None)
        return report

    @property
    def values(self) -> dict[str, float]:
        """The results by name, such as `"test BLEU"`; empty if it failed."""
        if not (report := self.report):
            return {}
        values = {name: getattr(report, name) for name in ("parameters", "steps", "minutes")}
        values[LOSS] = report.validation_loss
        for name, test in report.tests.items():
            values |= {f"{name}{BLEU}": test.bleu, f"{name} chrF2": test.chrf2}
        return values


@dataclass
class Variant:
    """A row of the table: recipe keys with their values, and a run for each seed.

    Attributes:
        keys: key → value as text.
        is_named: whether its name says more than its keys.
        differences: test set → difference in BLEU from the first variant.
    """

    name: str
    keys: dict[str, str]
    runs: list[Run]
    is_named: bool = True
    differences: dict[str, Difference] = field(default_factory=dict)

    @property
    def finished(self) -> list[Run]:
        """The runs that have results."""
        return [run for run in self.runs if run.report]

    def spread(self, name: str) -> tuple[float, float | None] | None:
        """Mean and sample standard deviation of a value over the finished runs; `None` if one has no such value."""
        values = [run.values.get(name) for run in self.finished]
        if not values or None in values:
            return None
        has_deviation = len(values) > 1 and all(map(math.isfinite, values))
        return statistics.fmean(values), statistics.stdev(values) if has_deviation else None

    @property
    def mean_loss(self) -> float:
        """The mean validation loss, or infinity if a run failed, since the others may have been lucky."""
        spread = self.spread(LOSS) if len(self.finished) == len(self.runs) else None
        return spread[0] if spread and math.isfinite(spread[0]) else math.inf


class SeedTable:
    """The comparison of variants.

    Args:
        variants: the first one is the baseline.
        references: test set → its references, for differences in BLEU.

    Attributes:
        notes: why differences are missing.
    """

    def __init__(self, variants: list[Variant], references: dict[str, list[str]]):
        self.variants, self.notes = variants, []
        self.values = list(dict.fromkeys(name for row in variants for run in row.runs for name in run.values))
        for test, texts in references.items():
            self._compare(test, texts)

    def _compare(self, test: str, references: list[str]) -> None:
        if len(self.variants) < 2 or not (baseline := self.variants[0].finished):
            return
        report = baseline[0].report
        lowercase = "case:lc" in (getattr(report.tests.get(test), "bleu_signature", None) or "")
        settings = ScoreSettings((report.evaluation or {}).get("tokenize"), lowercase).arguments()["bleu"]
        score = partial(bleu, references=references, **settings)
        read = [collect_errors(self.notes, partial(_translations, row.finished, test, score)) for row in self.variants]
        compared = [(row, texts) for row, texts in zip(self.variants, read) if texts]
        if read[0] and len(compared) > 1:
            differences = seed_bootstrap([texts for _, texts in compared], references, **settings)
            for (row, _), difference in zip(compared[1:], differences):
                row.differences[test] = difference

    @property
    def failed(self) -> list[Run]:
        """The runs that failed."""
        return [run for row in self.variants for run in row.runs if not run.report]

    def best_line(self) -> str:
        """A sentence that names the variant with the lowest validation loss; empty if there are not two to compare."""
        rows = [row for row in self.variants if row.mean_loss < math.inf]
        if len(rows) < 2 or not self.losses_compare():
            return ""
        best = min(rows, key=lambda row: row.mean_loss)
        values = ", ".join(f"{key} {text}" for key, text in best.keys.items())
        what = f"{best.name} ({values})" if best.is_named and values else values or best.name
        return f"Lowest validation loss: {what}, {best.mean_loss:.4f}."

    def losses_compare(self) -> bool:
        """Whether validation losses can be compared: per token of one vocabulary, on one text."""
        runs = [run for row in self.variants for run in row.finished]
        texts = {str(run.report.trail and run.report.trail.texts.get("validation")) for run in runs}
        files = [sorted(run.folder.glob("*tokenizer.json")) for run in runs]
        tokens = {str([json.loads(path.read_bytes())["model"]["vocab"] for path in paths]) for paths in files}
        return len(texts) < 2 and len(tokens) < 2

    def to_text(self) -> str:
        """The table for a terminal."""
        return self._format("  ".join)

    def to_markdown(self) -> str:
        """The table in Markdown, with notes and how it was computed."""
        table = self._format(lambda cells: f"| {' | '.join(cells)} |", "\\|")
        method = METHOD if len(self.variants) > 1 else METHOD.partition(" Δ")[0]
        notes = [*self.notes, *(f"{run.folder.name} failed: {run.error}" for run in self.failed)]
        return "\n\n".join(filter(None, (table, self.best_line(), method, "\n".join(f"- {note}" for note in notes))))

    def save(self, folder: Path, title: str) -> list[Path]:
        """Write the table as `README.md` and `sweep.json`, and the learning curves, one color for each variant.

        Returns:
            the files.
        """
        logs = {run.folder / "log.jsonl": row.name for row in self.variants for run in row.finished}
        page, data, curves = folder / "README.md", folder / "sweep.json", folder / "curves.png"
        draw_curves(list(logs), curves, list(logs.values()))
        text = f"# {title}\n\n{self.to_markdown()}\n\n![Learning curves of all runs]({curves.name})\n"
        content = json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"
        replace_files({page: text.encode("utf-8", "replace"), data: content.encode("utf-8", "replace")})
        return [page, data, curves]

    def to_dict(self) -> dict[str, Any]:
        """The table with all digits, and the values of each run, for JSON."""
        rows = []
        for row in self.variants:
            runs = [
                {"seed": run.seed, "folder": run.folder.name, "values": run.values, "error": run.error}
                for run in row.runs
            ]
            differences = {test: asdict(difference) for test, difference in row.differences.items()}
            spreads = {name: row.spread(name) for name in self.values}
            rows.append(
                {"name": row.name, "keys": row.keys, "runs": runs, "differences": differences, "spreads": spreads}
            )
        return {"rows": rows, "notes": self.notes, "losses_compare": self.losses_compare()}

    def _format(self, join: Callable[[list[str]], str], bar: str = "|") -> str:
        columns = [[cell.replace("|", bar) for cell in column] for column in self._columns()]
        widths = [max(3, *map(len, column)) for column in columns]
        lines = [[cell.ljust(width) for cell, width in zip(line, widths)] for line in zip(*columns)]
        lines.insert(1, ["-" * width for width in widths])
        return "\n".join(join(line).rstrip() for line in lines)

    def _columns(self) -> list[list[str]]:
        """The cells of each column, its name first."""
        rows, keys = self.variants, list(dict.fromkeys(key for row in self.variants for key in row.keys))
        columns = [["row", *(row.name for row in rows)]] if not keys or any(row.is_named for row in rows) else []
        columns += [[key, *(row.keys.get(key, "") for row in rows)] for key in keys]
        columns.append(["runs", *(_count_finished(row) for row in rows)])
        for name in self.values:
            columns.append([name, *(_format_spread(row, name) for row in rows)])
            if name.endswith(BLEU) and len(rows) > 1:
                test = name.removesuffix(BLEU)
                cells = [_format_difference(row.differences.get(test)) for row in rows[1:]]
                columns += [[f"{test} Δ BLEU", "", *(cell for cell, _ in cells)], ["p", "", *(p for _, p in cells)]]
        return columns


def _count_finished(row: Variant) -> str:
    number, total = len(row.finished), len(row.runs)
    return str(number) if number == total else f"{number} of {total}"


def _format_spread(row: Variant, name: str) -> str:
    form = FORMS.get(name, ".2f")
    mean, deviation = row.spread(name) or (None, None)
    return NOTHING if mean is None else f"{mean:{form}}" + (f" ± {deviation:{form}}" if deviation else "")


def _format_difference(difference: Difference | None) -> tuple[str, str]:
    if difference is None:
        return NOTHING, NOTHING
    p_value = "< 0.001" if difference.p_value < 0.001 else f"{difference.p_value:.3f}"
    return f"{difference.value:+.2f} [{difference.low:+.2f}, {difference.high:+.2f}]", p_value


def _translations(runs: list[Run], test: str, score: partial) -> list[list[str]]:
    """The translations of a test set by each run.

    Raises:
        InputError: a file cannot be read, or its BLEU is not the run's: it had other references or settings.
    """
    systems = []
    for run in runs:
        path, tests = run.folder / f"{test}_translations.txt", run.report.tests
        with reading(path):
            lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
        value = score(lines).value if len(lines) == len(score.keywords["references"]) else math.nan
        if test not in tests or not math.isclose(value, tests[test].bleu, abs_tol=1e-6):
            raise InputError(f"{path}: not compared, as it was scored on another text or in another way.")
        systems.append(lines)
    return systems
