"""The table that compares variants by runs with several seeds."""

import json
import math

import pytest
import sacrebleu

from hf_vaswani.evaluation.seed_bootstrap import seed_bootstrap
from hf_vaswani.evaluation.seed_table import Run, SeedTable, Variant
from tests.fake_runs import FAIR, GOOD, GRID_TEXTS, POOR, REFERENCES, FakeRuns


@pytest.fixture
def runs(tmp_path):
    return FakeRuns(tmp_path / "results")


@pytest.fixture
def written(runs):
    """The BLEU of each of four runs."""
    losses = dict(zip(GRID_TEXTS, (3.0, 3.5, 2.0, 2.25)))
    return {name: runs.write(name, losses[name], texts) for name, texts in GRID_TEXTS.items()}


def make_table(runs: FakeRuns, *names: str, seeds=("1",), references=REFERENCES) -> SeedTable:
    """The table of rows with these values of dropout."""
    rows = []
    for value in names or ("0.0", "0.1"):
        name = f"dropout-{value}"
        found = [Run(seed, runs.folder / f"{name}_seed_{seed}") for seed in seeds]
        rows.append(Variant(name, {"dropout": value}, found, is_named=False))
    return SeedTable(rows, {"test": references})


def cells(table: str) -> list[dict[str, str]]:
    """The rows of a Markdown table."""
    header, _, *rows = ([cell.strip() for cell in line.strip("| ").split("|")] for line in table.splitlines())
    return [dict(zip(header, row)) for row in rows]


def rows_of(table: SeedTable) -> list[dict[str, str]]:
    return cells(table.to_markdown().partition("\n\n")[0])


def test_table_has_means_spreads_and_differences_from_the_first_variant(runs, written, tmp_path):
    table = make_table(runs, seeds=("1", "2"))
    a, b, c, d = written.values()
    # The sample standard deviation of two values is their difference divided by the square root of two.
    first, second = rows_of(table)
    assert first["dropout"] == "0.0" and first["runs"] == "2" and first["parameters"] == "1,234"
    assert first["validation loss"] == "3.2500 ± 0.3536" and first["steps"] == "3" and first["minutes"] == "0.5"
    assert first["test BLEU"] == f"{(a + b) / 2:.2f} ± {abs(a - b) / math.sqrt(2):.2f}"
    chrf = [sacrebleu.corpus_chrf(texts, [REFERENCES]).score for texts in (GOOD, REFERENCES)]
    assert second["test chrF2"] == f"{sum(chrf) / 2:.2f} ± {abs(chrf[0] - chrf[1]) / math.sqrt(2):.2f}"
    [expected] = seed_bootstrap([[POOR, FAIR], [GOOD, REFERENCES]], REFERENCES)
    assert expected.value == pytest.approx((c + d) / 2 - (a + b) / 2)
    assert first["test Δ BLEU"] == "" == first["p"]
    assert second["test Δ BLEU"] == f"{expected.value:+.2f} [{expected.low:+.2f}, {expected.high:+.2f}]"
    assert second["p"] == f"{expected.p_value:.3f}"
    assert table.best_line() == "Lowest validation loss: dropout 0.1, 2.1250."

    page, data, curves = table.save(tmp_path, "Sweep")
    stored = json.loads(data.read_text())
    assert [run["folder"] for row in stored["rows"] for run in row["runs"]] == list(GRID_TEXTS)
    assert stored["rows"][0]["runs"][1]["values"]["test BLEU"] == written["dropout-0.0_seed_2"]
    assert stored["rows"][0]["spreads"]["validation loss"] == pytest.approx([3.25, math.sqrt(0.125)])
    assert stored["rows"][1]["differences"]["test"]["low"] == pytest.approx(expected.low)
    assert table.to_markdown() in page.read_text() and table.best_line() in page.read_text()
    assert "![Learning curves of all runs](curves.png)" in page.read_text()
    assert curves.read_bytes().startswith(b"\x89PNG")


def test_text_has_the_same_cells_as_markdown(runs, written):
    table = make_table(runs, seeds=("1", "2"))
    markdown = [line.strip("| ").split(" | ") for line in table.to_markdown().split("\n\n")[0].splitlines()]
    text = [line.split("  ") for line in table.to_text().splitlines()]
    assert [list(filter(None, map(str.strip, line))) for line in markdown] == [
        list(filter(None, map(str.strip, line))) for line in text
    ]


def test_variant_without_finished_runs_has_no_values(runs, written):
    table = make_table(runs, "0.2", "0.1")
    first, second = rows_of(table)
    assert first["runs"] == "0 of 1" and first["validation loss"] == "–" == second["test Δ BLEU"]
    assert [run.folder.name for run in table.failed] == ["dropout-0.2_seed_1"]
    assert table.best_line() == "" and "dropout-0.2_seed_1 failed: " in table.to_markdown()


def test_variant_with_a_failed_seed_is_not_the_best(runs, written):
    runs.write("dropout-0.2_seed_1", 0.1, GOOD)
    table = make_table(runs, "0.0", "0.1", "0.2", seeds=("1", "2"))
    assert [row.mean_loss for row in table.variants] == [3.25, 2.125, math.inf]
    assert "dropout 0.1" in table.best_line()


def test_translations_that_differ_from_those_scored_are_not_compared(runs, written):
    path = runs.folder / "dropout-0.1_seed_1" / "test_translations.txt"
    path.write_text(path.read_text().replace("rock", "hill"))
    table = make_table(runs)
    assert table.variants[1].differences == {}
    [note] = table.notes
    assert "dropout-0.1_seed_1/test_translations.txt: not compared" in note and note in table.to_markdown()


def test_different_test_sets_are_not_compared(runs, written):
    score = sacrebleu.corpus_bleu(POOR, [[f"{text} !" for text in REFERENCES]]).score
    runs.write("dropout-0.1_seed_1", 2.0, POOR, tests={"test": {"sentences": 12, "bleu": score, "chrf2": 50.0}})
    [note] = make_table(runs).notes
    assert note.endswith("/test_translations.txt: not compared, as it was scored on another text or in another way.")


def test_runs_are_scored_with_their_own_tokenizer(runs, written):
    score = sacrebleu.corpus_bleu(GOOD, [REFERENCES], tokenize="char").score
    evaluation = {"tokenize": "char"}
    tests = {"test": {"sentences": 12, "bleu": score, "chrf2": 50.0}}
    for value in ("0.0", "0.1"):
        runs.write(f"dropout-{value}_seed_1", 2.0, GOOD, evaluation=evaluation, tests=tests)
    table = make_table(runs)
    assert table.notes == [] and table.variants[1].differences["test"].value == 0


def test_losses_of_different_vocabularies_are_not_ranked(runs, written):
    runs.write("dropout-0.1_seed_1", 2.0, GOOD, vocab={"b": 1})
    table = make_table(runs)
    assert not table.losses_compare() and table.best_line() == ""
