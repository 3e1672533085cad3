"""The results of a sweep: its combinations compared, `sweep.json`, and the table in its README."""

import json
import math
import statistics
from dataclasses import asdict, dataclass, field
from functools import partial

from ..errors import InputError, counted, reason
from ..evaluation.score import bleu
from ..evaluation.score_settings import ScoreSettings
from ..evaluation.seed_bootstrap import RESAMPLES, Difference, seed_bootstrap
from ..files import collect_errors
from ..records.run_report import RunReport
from ..training.checkpoints.artifacts import TRANSLATIONS
from ..training.setup.splits import load_test_sets, own_text, parse_sources
from .request import BASELINE, Run, Texts, combination_name

NOTHING, LOSS, BLEU = "–", "validation loss", " BLEU"
# How the values of runs are written; all others are scores.
FORMS = {"parameters": ",.0f", "steps": ",.0f", "minutes": ",.1f", LOSS: ".4f"}
METHOD = (
    "± is the sample standard deviation over seeds. Δ BLEU is the difference from the first row, with its 95% "
    f"confidence interval and p-value: a paired bootstrap with {RESAMPLES:,} replicates, each of which draws "
    "sentences (Koehn 2004) and, for each row, seeds, both with replacement. If rows have only one seed, Δ BLEU does "
    "not show how much another seed would change it. With many rows, some p-values are low by chance."
)


@dataclass(frozen=True)
class RunResult:
    """The results of a run: its values by name, such as `"test BLEU"`; or why it failed."""

    folder: str
    seed: str
    values: dict[str, float] = field(default_factory=dict)
    error: str | None = None


@dataclass(frozen=True)
class Row:
    """The results of a combination, and by test set its differences in BLEU from the first one."""

    name: str
    keys: dict[str, str]
    runs: list[RunResult] = field(default_factory=list)
    differences: dict[str, Difference] = field(default_factory=dict)

    def spread(self, name: str) -> tuple[float, float | None] | None:
        """Mean and sample standard deviation of a value over the finished runs; `None` if one has no such value."""
        values = [run.values.get(name) for run in self.runs if run.error is None]
        if not values or None in values:
            return None
        has_deviation = len(values) > 1 and all(map(math.isfinite, values))
        return statistics.fmean(values), statistics.stdev(values) if has_deviation else None

    @property
    def full_loss(self) -> float:
        """The mean validation loss; infinite if a run failed, as the others may have been lucky."""
        spread = None if any(run.error for run in self.runs) else self.spread(LOSS)
        return spread[0] if spread and math.isfinite(spread[0]) else math.inf

    @property
    def is_named(self) -> bool:
        """Whether it has a name that its values alone do not give it."""
        return self.name not in (BASELINE, combination_name("", self.keys))


@dataclass(frozen=True)
class SweepReport:
    """The results of a sweep, with notes on why differences are missing, and the file with the learning curves."""

    recipe: str
    options: tuple[str, ...]
    search: Texts
    seeds: tuple[str, ...]
    rows: list[Row]
    notes: list[str] = field(default_factory=list)
    losses_compare: bool = True
    figure: str | None = None

    @property
    def failed(self) -> list[RunResult]:
        """The runs that failed."""
        return [run for row in self.rows for run in row.runs if run.error]

    @property
    def values(self) -> list[str]:
        """The names of all values of runs."""
        return list(dict.fromkeys(name for row in self.rows for run in row.runs for name in run.values))

    def to_json(self) -> str:
        """The content of `sweep.json`: all of this, and the mean and deviation of each value of a row."""
        content = asdict(self)
        for row, entry in zip(self.rows, content["rows"]):
            entry["spreads"] = {name: row.spread(name) for name in self.values}
        return json.dumps(content, indent=2, ensure_ascii=False) + "\n"

    def page(self) -> str:
        """The sweep's README."""
        about = f"{counted(len(self.rows), 'combination')}, each with {counted(len(self.seeds), 'seed')}"
        parts = [f"# Sweep of {self.recipe}", f"{about}: {', '.join(self.seeds)}."]
        parts += [f"Further keys: `{' '.join(self.options)}`"] if self.options else []
        parts += [result_table(self), best_line(self), METHOD if len(self.rows) > 1 else METHOD.partition(" Δ")[0]]
        parts.append("\n".join(f"- {note}" for note in self.notes))
        parts.append("\n".join(f"- {run.folder} failed: {run.error}" for run in self.failed))
        parts += [f"![Learning curves of all runs]({self.figure})"] if self.figure else []
        return "\n\n".join(filter(None, parts)) + "\n"


def result_table(report: SweepReport) -> str:
    """The table in Markdown, with a row for each combination."""
    rows, keys = report.rows, list(dict.fromkeys(key for row in report.rows for key in row.keys))
    columns = [["row", *(row.name for row in rows)]] if not keys or any(row.is_named for row in rows) else []
    columns += [[key, *(row.keys.get(key, "") for row in rows)] for key in keys]
    columns.append(["runs", *(_count_finished(row) for row in rows)])
    for name in report.values:
        columns.append([name, *(_write_spread(row, name) for row in rows)])
        if name.endswith(BLEU) and len(rows) > 1:
            test = name.removesuffix(BLEU)
            found = [_write_difference(row.differences.get(test)) for row in rows[1:]]
            columns += [[f"{test} Δ BLEU", "", *(cell for cell, _ in found)], ["p", "", *(cell for _, cell in found)]]
    widths = [max(3, *map(len, column)) for column in columns]
    lines = [[cell.replace("|", "\\|") for cell in line] for line in zip(*columns)]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(f"| {' | '.join(cell.ljust(width) for cell, width in zip(line, widths))} |" for line in lines)


def best_line(report: SweepReport) -> str:
    """A sentence that names the row with the lowest validation loss; empty if there are not two to compare."""
    rows = [row for row in report.rows if row.full_loss < math.inf]
    if len(rows) < 2 or not report.losses_compare:
        return ""
    best = min(rows, key=lambda row: row.full_loss)
    values = ", ".join(f"{key} {text}" for key, text in best.keys.items())
    what = f"{best.name} ({values})" if best.is_named and values else values or best.name
    return f"Lowest validation loss: {what}, {best.full_loss:.4f}."


def _count_finished(row: Row) -> str:
    number = sum(run.error is None for run in row.runs)
    return str(number) if number == len(row.runs) else f"{number} of {len(row.runs)}"


def _write_spread(row: Row, name: str) -> str:
    form = FORMS.get(name, ".2f")
    mean, deviation = row.spread(name) or (None, None)
    return NOTHING if mean is None else f"{mean:{form}}" + (f" ± {deviation:{form}}" if deviation else "")


def _write_difference(difference: Difference | None) -> tuple[str, str]:
    if difference is None:
        return NOTHING, NOTHING
    p_value = "< 0.001" if difference.p_value < 0.001 else f"{difference.p_value:.3f}"
    return f"{difference.value:+.2f} [{difference.low:+.2f}, {difference.high:+.2f}]", p_value


Finished = list[tuple[Run, RunReport]]


def compare(combinations: dict[str, Finished]) -> tuple[dict[str, dict[str, Difference]], list[str]]:
    """The differences in BLEU from the first combination.

    Args:
        combinations: name → finished runs.

    Returns:
        Name → test set → difference; and a line for each reason why one is missing.
    """
    found: dict[str, dict[str, Difference]] = {name: {} for name in combinations}
    notes: list[str] = []
    members = next(iter(combinations.values()))
    if len(combinations) < 2 or not members:
        return found, notes
    run, report = members[0]
    data = own_text(run.recipe.data)
    tests = collect_errors(notes, lambda: load_test_sets(data, parse_sources(data))) or {}
    for test, pairs in tests.items():
        settings = ScoreSettings(run.recipe.evaluation.tokenize, "case:lc" in str(report.tests.get(test)))
        score = partial(bleu, references=[pair[1] for pair in pairs], **settings.arguments()["bleu"])
        read = {name: partial(_read_translations, combinations[name], test, score) for name in combinations}
        systems = {name: texts for name in combinations if (texts := collect_errors(notes, read[name]))}
        if next(iter(combinations)) in systems and len(systems) > 1:
            differences = seed_bootstrap(list(systems.values()), **score.keywords)
            for name, difference in zip(list(systems)[1:], differences):
                found[name][test] = difference
    return found, notes


def losses_compare(finished: Finished) -> bool:
    """Whether validation losses can be compared: per token of one vocabulary, on one text."""
    texts = {str(report.trail and report.trail.texts.get("validation")) for _, report in finished}
    files = [sorted(run.folder.glob("*tokenizer.json")) for run, _ in finished]
    tokens = {str([json.loads(path.read_bytes())["model"]["vocab"] for path in paths]) for paths in files}
    return len(texts) < 2 and len(tokens) < 2


def _read_translations(members: Finished, test: str, score: partial) -> list[list[str]]:
    """The translations of a test set by each run.

    Raises:
        InputError: one cannot be read, or its run computed another BLEU for it: it had other references or settings.
    """
    systems = []
    for run, report in members:
        path = run.folder / f"{test}{TRANSLATIONS}"
        try:
            lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path} cannot be read: {reason(error)}.") from None
        value = score(lines).value if len(lines) == len(score.keywords["references"]) else math.nan
        if test not in report.tests or not math.isclose(value, report.tests[test].bleu, abs_tol=1e-6):
            raise InputError(f"{path}: not compared, as it was scored on another text or in another way.")
        systems.append(lines)
    return systems
