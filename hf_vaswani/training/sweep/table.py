"""The tables of a sweep in Markdown: one with a row for each combination, one with a row for each run."""

from collections.abc import Callable

from ...errors import counted
from .grid import WITHOUT_GRID, combination_name
from .report import BleuDifference, CombinationResult, RunResult, Spread, SweepReport

NOTHING = "–"
METHOD = (
    "± is the sample standard deviation over seeds. Δ BLEU is the difference from the first row, with its 95% "
    "confidence interval and p-value: a paired bootstrap with {resamples:,} replicates, each of which draws sentences "
    "(Koehn 2004) and, for each row, seeds, both with replacement. If rows have only one seed, Δ BLEU does not "
    "show how much another seed would change it. With many rows, some p-values are low by chance."
)


def result_table(report: SweepReport) -> str:
    """The table with a row for each combination."""
    is_named = any(result.name not in (WITHOUT_GRID, *_of_values(result)) for result in report.combinations)
    keys = list(dict.fromkeys(key for result in report.combinations for key in result.values))
    tests = list(dict.fromkeys(test for result in report.combinations for test in result.tests))
    header = ["row"] * (is_named or not keys) + keys + ["runs", "parameters", "steps", "minutes", "validation loss"]
    for test in tests:
        header += [f"{test} BLEU", f"{test} chrF2"]
        if len(report.combinations) > 1:
            header += [f"{test} Δ BLEU", "p"]
    rows = []
    for number, result in enumerate(report.combinations):
        name = [result.name] * (is_named or not keys)
        cells = [*name, *(result.values.get(key, "") for key in keys), _runs(result)]
        cells += [_number(result.parameters), _spread(result.steps, "{:,.0f}"), _spread(result.minutes, "{:,.1f}")]
        cells.append(_spread(result.validation_loss, "{:.4f}"))
        for test in tests:
            spread = result.tests.get(test)
            cells += [_spread(spread and spread.bleu, "{:.2f}"), _spread(spread and spread.chrf2, "{:.2f}")]
            if len(report.combinations) > 1:
                cells += _difference(spread and spread.difference) if number else ["", ""]
        rows.append(cells)
    return markdown_table(header, rows)


def run_table(report: SweepReport) -> str:
    """The table with a row for each run."""
    results = [run for result in report.combinations for run in result.runs]
    tests = list(dict.fromkeys(test for run in results for test in run.tests))
    header = ["run", "seed", "steps", "minutes", "validation loss"]
    header += [f"{test} {score}" for test in tests for score in ("BLEU", "chrF2")]
    rows = []
    for run in results:
        cells = [run.folder, str(run.seed)]
        if run.state == "failed":
            rows.append([*cells, "failed", *[NOTHING] * (len(header) - 3)])
            continue
        cells += [f"{run.steps:,}", f"{run.minutes:,.1f}", f"{run.validation_loss:.4f}"]
        for test in tests:
            scores = run.tests.get(test)
            cells += [f"{scores.bleu:.2f}", f"{scores.chrf2:.2f}"] if scores else [NOTHING] * 2
        rows.append(cells)
    return markdown_table(header, rows)


def page(report: SweepReport, figure: str) -> str:
    """The sweep's README.

    Args:
        figure: the file with the learning curves.
    """
    title = f"# Sweep of {report.recipe}"
    about = f"{counted(len(report.combinations), 'combination')}, each with {counted(len(report.seeds), 'seed')}"
    parts = [title, f"{about}: {', '.join(map(str, report.seeds))}."]
    if report.options:
        parts.append(f"Further keys: `{' '.join(report.options)}`")
    parts.append(result_table(report))
    parts += [line] if (line := best_line(report)) else []
    if len(report.combinations) > 1 and any(result.tests for result in report.combinations):
        parts.append(METHOD.format(resamples=report.resamples))
    elif len(report.seeds) > 1:
        parts.append(METHOD.partition(". ")[0] + ".")
    parts += [_list(report.notes)] if report.notes else []
    if report.failed:
        parts += ["## Failed runs", _list([describe_failure(run) for run in report.failed])]
    parts += ["## All runs", run_table(report)]
    parts += [f"![Learning curves of all runs]({figure})"] if report.figure else []
    return "\n\n".join(parts) + "\n"


def best_line(report: SweepReport) -> str:
    """A sentence that names the combination with the lowest validation loss; empty if there are not two to compare."""
    if (best := report.best) is None:
        return ""
    values = ", ".join(f"{key} {text}" for key, text in best.values.items())
    is_named = best.name not in (WITHOUT_GRID, *_of_values(best)) and values
    what = f"{best.name} ({values})" if is_named else values or best.name
    return f"Lowest validation loss: {what}, {best.full_loss:.4f}."


def describe_failure(run: RunResult) -> str:
    """Which run failed, and how."""
    return f"{run.folder}: exit status {run.exit_code}: {run.error}"


def markdown_table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table whose columns are aligned in plain text, too."""
    lines = [[cell.replace("|", "\\|") for cell in row] for row in [header, *rows]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    rule = ["-" * max(width, 3) for width in widths]
    lines.insert(1, rule)
    return "\n".join(f"| {' | '.join(cell.ljust(width) for cell, width in zip(line, widths))} |" for line in lines)


def _of_values(result: CombinationResult) -> list[str]:
    """The name that a combination would have from its values alone, in a list."""
    return [combination_name("", result.values)]


def _runs(result: CombinationResult) -> str:
    finished = len(result.finished)
    return str(finished) if finished == len(result.runs) else f"{finished} of {len(result.runs)}"


def _number(value: int | None) -> str:
    return NOTHING if value is None else f"{value:,}"


def _spread(spread: Spread | None, form: str) -> str:
    if spread is None:
        return NOTHING
    shown: Callable[[float], str] = form.format
    same = spread.deviation is None or not any(value != spread.values[0] for value in spread.values)
    return shown(spread.mean) if same else f"{shown(spread.mean)} ± {shown(spread.deviation)}"


def _difference(difference: BleuDifference | None) -> list[str]:
    if difference is None:
        return [NOTHING, NOTHING]
    p_value = "< 0.001" if difference.p_value < 0.001 else f"{difference.p_value:.3f}"
    return [f"{difference.value:+.2f} [{difference.low:+.2f}, {difference.high:+.2f}]", p_value]


def _list(lines: list[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
