"""Folders of shards, translated by workers that keep windows in order; here, by this process itself."""

import gzip
import json
import random
from pathlib import Path

import pyarrow as pa
import pytest
import zstandard
from pyarrow import parquet
from transformers import pipeline

from hf_vaswani.cli import main
from hf_vaswani.data.sources.text_files import iterate_lines
from hf_vaswani.errors import InputError
from hf_vaswani.ledger import exclusive
from hf_vaswani.translator.shard_files import Columns
from hf_vaswani.translator.shards import (
    OpenWorker,
    begin_folder,
    find_shards,
    folder_errors,
    translate_shards,
)
from hf_vaswani.translator.translator_settings import TranslatorSettings

COLUMNS = Columns("text", "translation")
OPTIONS = {"max_new_tokens": 4, "num_beams": 1}


def some_lines(number: int, seed: int = 0) -> list[str]:
    generator = random.Random(seed)
    return [
        " ".join(generator.choices([f"w{i}" for i in range(36)], k=generator.randint(0, 9))) for _ in range(number)
    ]


def text_of(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


@pytest.fixture
def translate(saved_model, tmp_path, folder):
    """Translates the folder into `out`; returns the shards, the reports, and how many windows were translated."""
    work = OpenWorker(TranslatorSettings((str(saved_model),), arguments=OPTIONS))()

    def run(stop_after: int | None = None, settings=None):
        done, reports = [], []

        def run_jobs(jobs):
            for shard, job in jobs:
                if job is not None and len(done) == stop_after:
                    raise KeyboardInterrupt
                yield shard, job, None if job is None else work(job)
                done.extend([1] * (job is not None))

        output = tmp_path / "out"
        with exclusive(output):
            begin_folder(output, settings or {"model": 1})
            shards = [shard for shard in find_shards(folder, output, COLUMNS)[0] if not shard.is_finished]
            try:
                report_of = lambda name: lambda number, what: reports.append((Path(name).name, number, what))  # noqa: E731
                translate_shards(shards, run_jobs, settings or {"model": 1}, report_of)
            except KeyboardInterrupt:
                pass
        return shards, reports, len(done)

    return run


def test_text_shards_match_the_output_of_the_translate_command(translate, folder, saved_model, tmp_path):
    lines = some_lines(700)
    (folder / "a.txt").write_bytes(text_of(lines))
    (folder / "b.txt.gz").write_bytes(gzip.compress(text_of(lines[:40])))
    (folder / "c.txt.zst").write_bytes(zstandard.compress(text_of(lines[:30])))
    (folder / "empty.txt").write_bytes(b"")
    shards, reports, _ = translate()
    assert [shard.error for shard in shards] == [None] * 4 and reports == []
    for name in ("a.txt", "b.txt.gz", "c.txt.zst", "empty.txt"):
        alone = tmp_path / "alone"
        options = ["--max_new_tokens", "4", "--num_beams", "1", "--overwrite"]
        assert (
            main(["translate", str(saved_model), "--input", str(folder / name), "--output", str(alone), *options]) == 0
        )
        translated = "".join(f"{line}\n" for line in iterate_lines(tmp_path / "out" / name, print))
        assert translated == alone.read_text()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        ".translation.json", "a.txt", "b.txt.gz", "c.txt.zst", "empty.txt",
    ]  # fmt: skip


def test_tables_get_a_translation_column(translate, folder, saved_model, tmp_path):
    texts = ["w1 w2", None, "w3 w4 w5", ""]
    translator = pipeline("translation", model=str(saved_model), **OPTIONS)
    expected = [None if text is None else translator(text)[0]["translation_text"] for text in texts]
    rows = [{"id": i, "text": text} for i, text in enumerate(texts)]
    lines = [*map(json.dumps, rows), "", json.dumps({"id": 4})]
    (folder / "a.jsonl").write_text("".join(f"{line}\n" for line in lines))
    parquet.write_table(pa.table({"id": range(4), "text": texts}), folder / "b.parquet")
    assert [shard.error for shard in translate()[0]] == [None, None]
    got = (tmp_path / "out" / "a.jsonl").read_text().split("\n")
    assert list(map(json.loads, got[:4])) == [{**row, "translation": text} for row, text in zip(rows, expected)]
    assert got[4] == "" and json.loads(got[5]) == {"id": 4, "translation": None} and got[6:] == [""]
    table = parquet.read_table(tmp_path / "out" / "b.parquet")
    assert table.to_pydict() == {"id": [0, 1, 2, 3], "text": texts, "translation": expected}


def test_unreadable_shard_does_not_affect_the_others_and_is_translated_once_readable(translate, folder, tmp_path):
    lines = some_lines(300)
    (folder / "a.txt.gz").write_bytes(b"not gzip")
    (folder / "b.parquet").write_bytes(b"not parquet")
    (folder / "c.jsonl").write_text('{"text": "w1"}\n{"text": \n')
    (folder / "d.jsonl").write_text('{"text": 7}\n')
    parquet.write_table(pa.table({"other": ["w1"]}), folder / "e.parquet")
    parquet.write_table(pa.table({"text": ["w1"], "translation": ["w1"]}), folder / "f.parquet")
    (folder / "g.jsonl").write_text('{"id": 1}\n\n{"sentence": "w1"}\n')
    (folder / "h.jsonl").write_text('{"text": "w1"}\n{"text": "w2", "translation": {"de": "w3"}}\n')
    (folder / "z.txt").write_bytes(text_of(lines))
    shards, _, _ = translate()
    errors = {shard.path.name: shard.error for shard in shards}
    assert errors.pop("z.txt") is None and len((tmp_path / "out" / "z.txt").read_text().splitlines()) == 300
    for name, message in {
        "a.txt.gz": "cannot be read", "b.parquet": "cannot be read", "c.jsonl": "line 2: not JSON",
        "d.jsonl": "'text' is int, not a text", "e.parquet": "no column 'text', only 'other'",
        "f.parquet": "already has a column 'translation'", "g.jsonl": "has no 'text', only 'id', 'sentence'",
        "h.jsonl": "line 2: already has 'translation'",
    }.items():  # fmt: skip
        assert str(folder / name) in errors[name] and message in errors[name]
        assert not (tmp_path / "out" / name).exists()
    (folder / "a.txt.gz").write_bytes(gzip.compress(b"w1\n"))
    (folder / "c.jsonl").write_text('{"text": "w2"}\n')
    errors = {shard.path.name: shard.error for shard in translate()[0]}
    assert errors["a.txt.gz"] is errors["c.jsonl"] is None and "z.txt" not in errors
    assert len((tmp_path / "out" / "c.jsonl").read_text().splitlines()) == 1


def test_interrupted_folder_continues_with_the_missing_windows(translate, folder, tmp_path):
    (folder / "a.txt").write_bytes(text_of(some_lines(700)))  # windows of 128, 512 and 60
    (folder / "b.txt").write_bytes(text_of(some_lines(200, seed=1)))  # 128 and 72
    assert translate()[2] == 5
    expected = {path.name: path.read_bytes() for path in (tmp_path / "out").glob("*.txt")}
    for path in (tmp_path / "out").iterdir():
        path.unlink()
    assert [translate(stop_after=number)[2] for number in (2, 2, None)] == [2, 2, 1]
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").glob("*.txt")} == expected


def test_unfinished_shard_whose_text_changed_starts_over(translate, folder, tmp_path):
    (folder / "a.txt").write_bytes(text_of(some_lines(700)))
    translate(stop_after=1)
    (folder / "a.txt").write_bytes(b"w1\n\nw2\n")
    assert translate()[2] == 1
    assert len((tmp_path / "out" / "a.txt").read_text().splitlines()) == 3


def test_temporarily_unreadable_shard_keeps_its_translations(translate, folder, tmp_path):
    (folder / "a.txt").write_bytes(text_of(some_lines(700)))  # windows of 128, 512 and 60
    translate(stop_after=2)
    (folder / "a.txt").rename(folder / "elsewhere")
    (folder / "a.txt").symlink_to(folder / "absent")
    [shard], _, windows = translate()
    assert "does not exist" in shard.error and windows == 0
    (folder / "a.txt").unlink()
    (folder / "elsewhere").rename(folder / "a.txt")
    assert translate()[2] == 1
    assert len((tmp_path / "out" / "a.txt").read_text().splitlines()) == 700


def test_lines_with_problems_are_reported_with_their_file(translate, folder):
    (folder / "a.txt").write_bytes(b"w1\n\xff\n")
    [(name, number, message)] = translate()[1]
    assert (name, number) == ("a.txt", 2) and message.startswith("byte 0xff at column 1 is not valid UTF-8")


def test_folder_rejects_different_settings_and_a_second_run(translate, folder, tmp_path):
    (folder / "a.txt").write_bytes(b"w1\n")
    translate(settings={"model": "x", "num_beams": 2})
    with pytest.raises(InputError, match="num_beams was 2 and is now 3"):
        translate(settings={"model": "x", "num_beams": 3})
    with exclusive(tmp_path / "out"), pytest.raises(InputError, match="Another command is using"):
        translate(settings={"model": "x", "num_beams": 2})


def test_files_of_other_types_are_listed_but_hidden_ones_are_not(folder, tmp_path):
    for name in ("a.txt", "b.TXT.GZ", "README.md", "x.parquet.gz", ".hidden.txt", "_SUCCESS"):
        (folder / name).write_bytes(b"")
    (folder / "sub.txt").mkdir()
    shards, others = find_shards(folder, tmp_path / "out", COLUMNS)
    assert [shard.output.name for shard in shards] == ["a.txt", "b.TXT.GZ"]
    assert others == ["README.md", "sub.txt", "x.parquet.gz"]
    with pytest.raises(InputError, match="has no shards"):
        find_shards(tmp_path, tmp_path / "out", COLUMNS)


def test_unusable_folders_are_rejected(folder, tmp_path):
    (tmp_path / "file").write_text("")
    assert "is not a folder" in folder_errors(str(tmp_path / "absent"), str(tmp_path / "out"))[0]
    assert "is a file" in folder_errors(str(folder), str(tmp_path / "file"))[0]
    assert "is the folder of the shards" in folder_errors(str(folder), str(folder / "."))[0]
