"""`scripts/translate_shards.py`, here without Ray: one process reads, translates and writes."""

import argparse
import gzip
import json
import random
import sys
from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa
import pytest
import zstandard
from pyarrow import parquet
from transformers import pipeline

from hf_vaswani.cli import main
from hf_vaswani.commands.translate import translator_settings
from hf_vaswani.data.sources.text_files import iterate_lines
from hf_vaswani.ledger import exclusive

from .conftest import load_script

script = load_script("translate_shards")
OPTIONS = ["--max_new_tokens", "4", "--num_beams", "1"]


def some_lines(number: int, seed: int = 0) -> list[str]:
    generator = random.Random(seed)
    return [
        " ".join(generator.choices([f"w{i}" for i in range(36)], k=generator.randint(0, 9))) for _ in range(number)
    ]


def text_of(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def rows_here(paths: list[Path], options: argparse.Namespace):
    """What Ray Data returns, in blocks of 100 rows."""
    translate = script.Translate(translator_settings(options))
    for path in paths:
        rows = list(script.read_file({"path": str(path)}, options.column, options.output_column))
        for start in range(0, len(rows), 100):
            batch = translate(pa.Table.from_pylist(rows[start : start + 100]))
            yield from zip(*(batch[name].to_pylist() for name in ("path", "translation", "error", "end")))


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


@pytest.fixture
def translate(saved_model, tmp_path, folder, monkeypatch, capsys):
    """Translates the folder into `out`; returns the exit status and the lines of standard error."""
    monkeypatch.setattr(script, "ray_session", lambda *_, **__: nullcontext())
    monkeypatch.setattr(script, "import_extra", lambda _: None)

    def run(*options: str, rows=rows_here):
        monkeypatch.setattr(script, "translated_rows", rows)
        arguments = [str(saved_model), str(folder), str(tmp_path / "out"), *OPTIONS, *options]
        status = main(arguments, script.make_parser())
        return status, capsys.readouterr().err.splitlines()

    return run


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_text_files_match_the_output_of_the_translate_command(translate, folder, saved_model, tmp_path):
    lines = some_lines(700)
    (folder / "a.txt").write_bytes(text_of(lines))
    (folder / "b.txt.gz").write_bytes(gzip.compress(text_of(lines[:40])))
    (folder / "c.txt.zst").write_bytes(zstandard.compress(text_of(lines[:30])))
    (folder / "empty.txt").write_bytes(b"")
    assert translate() == (0, [f"4 files of 4 finished in {tmp_path / 'out'}."])
    for name in ("a.txt", "b.txt.gz", "c.txt.zst", "empty.txt"):
        alone = tmp_path / "alone"
        arguments = ["--input", str(folder / name), "--output", str(alone), *OPTIONS, "--overwrite"]
        assert main(["translate", str(saved_model), *arguments]) == 0
        translated = "".join(f"{line}\n" for line in iterate_lines(tmp_path / "out" / name, print))
        assert translated == alone.read_text()
    assert names(tmp_path / "out") == [".translation.json", "a.txt", "b.txt.gz", "c.txt.zst", "empty.txt"]


def test_tables_get_a_translation_column(translate, folder, saved_model, tmp_path):
    texts = ["w1 w2", None, "w3 w4 w5", ""]
    translator = pipeline("translation", model=str(saved_model), max_new_tokens=4, num_beams=1)
    expected = [None if text is None else translator(text)[0]["translation_text"] for text in texts]
    rows = [{"id": i, "text": text} for i, text in enumerate(texts)]
    lines = [*map(json.dumps, rows), "", json.dumps({"id": 4})]
    (folder / "a.jsonl").write_text("".join(f"{line}\n" for line in lines))
    parquet.write_table(pa.table({"id": range(4), "text": texts}), folder / "b.parquet")
    parquet.write_table(pa.table({"text": pa.array([], pa.string())}), folder / "empty.parquet")
    assert translate()[0] == 0
    got = (tmp_path / "out" / "a.jsonl").read_text().split("\n")
    assert list(map(json.loads, got[:4])) == [{**row, "translation": text} for row, text in zip(rows, expected)]
    assert got[4] == "" and json.loads(got[5]) == {"id": 4, "translation": None} and got[6:] == [""]
    table = parquet.read_table(tmp_path / "out" / "b.parquet")
    assert table.to_pydict() == {"id": [0, 1, 2, 3], "text": texts, "translation": expected}
    assert parquet.read_table(tmp_path / "out" / "empty.parquet").to_pydict() == {"text": [], "translation": []}


def test_large_table_keeps_its_rows_in_order(translate, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(script, "ROWS", 64)
    lines = some_lines(300)
    parquet.write_table(pa.table({"n": range(300), "text": lines}), folder / "a.parquet")
    (folder / "b.txt").write_bytes(text_of(lines))
    assert translate()[0] == 0
    translations = (tmp_path / "out" / "b.txt").read_text().split("\n")[:-1]
    assert parquet.read_table(tmp_path / "out" / "a.parquet").to_pydict() == {
        "n": list(range(300)), "text": lines, "translation": translations,
    }  # fmt: skip


def test_unreadable_file_does_not_affect_the_others_and_is_translated_once_readable(translate, folder, tmp_path):
    (folder / "a.txt.gz").write_bytes(b"not gzip")
    (folder / "b.parquet").write_bytes(b"not parquet")
    (folder / "c.jsonl").write_text('{"text": "w1"}\n{"text": \n')
    (folder / "d.jsonl").write_text('{"text": 7}\n')
    parquet.write_table(pa.table({"other": ["w1"]}), folder / "e.parquet")
    parquet.write_table(pa.table({"text": ["w1"], "translation": ["w1"]}), folder / "f.parquet")
    (folder / "g.jsonl").write_text('{"id": 1}\n\n{"sentence": "w1"}\n')
    (folder / "h.jsonl").write_text('{"text": "w1"}\n{"text": "w2", "translation": {"de": "w3"}}\n')
    (folder / "i.txt.gz").write_bytes(gzip.compress(text_of(some_lines(2000)))[:-9])
    (folder / "z.txt").write_bytes(text_of(some_lines(300)))
    status, lines = translate()
    assert status == 2 and lines[-1] == f"error: 1 file of 10 finished in {tmp_path / 'out'}."
    assert len((tmp_path / "out" / "z.txt").read_text().splitlines()) == 300
    messages = {
        "a.txt.gz": "cannot be read", "b.parquet": "", "c.jsonl": "line 2 is not JSON",
        "d.jsonl": "'text' is int, not a text", "e.parquet": "no 'text', only 'other'",
        "f.parquet": "already has 'translation'", "g.jsonl": "no 'text', only 'id', 'sentence'",
        "h.jsonl": "already has 'translation'", "i.txt.gz": "is truncated",
    }  # fmt: skip
    for line, (name, message) in zip(lines, messages.items(), strict=False):
        assert line.startswith(f"error: {folder / name}") and message in line and "Traceback" not in line
    assert names(tmp_path / "out") == [".translation.json", "z.txt"]
    (folder / "a.txt.gz").write_bytes(gzip.compress(b"w1\n"))
    (folder / "c.jsonl").write_text('{"text": "w2"}\n')
    translate()
    assert names(tmp_path / "out") == [".translation.json", "a.txt.gz", "c.jsonl", "z.txt"]
    assert len((tmp_path / "out" / "c.jsonl").read_text().splitlines()) == 1


def test_finished_files_are_not_translated_again(translate, folder, tmp_path):
    for name in ("a.txt", "b.txt"):
        (folder / name).write_bytes(b"w1\n")
    translate()
    (tmp_path / "out" / "b.txt").unlink()
    found = []

    def rows(paths, options):
        found.extend(path.name for path in paths)
        return rows_here(paths, options)

    assert translate(rows=rows)[0] == 0 and found == ["b.txt"]
    found.clear()
    assert translate(rows=rows) == (0, [f"2 files of 2 finished in {tmp_path / 'out'}."]) and found == []


def test_interrupted_file_is_absent(translate, folder, tmp_path):
    (folder / "a.txt").write_bytes(text_of(some_lines(50)))
    (folder / "b.txt").write_bytes(text_of(some_lines(500)))

    def rows(paths, options):
        for number, row in enumerate(rows_here(paths, options)):
            if number == 400:
                raise KeyboardInterrupt
            yield row

    assert translate(rows=rows)[0] == 130
    assert names(tmp_path / "out") == [".translation.json", "a.txt"]


def test_lines_with_problems_are_reported_with_their_file(translate, folder):
    (folder / "a.txt").write_bytes(b"w1\n\xff\n" + b"w2 " * 30 + b"\n")
    status, lines = translate("--max_source_length", "8")
    assert status == 0 and lines[0].startswith(f"warning: {folder / 'a.txt'}, line 3: 31 tokens, more than the limit")
    assert lines[1].startswith(f"warning: {folder / 'a.txt'}, line 2: byte 0xff at column 1 is not valid UTF-8")


def test_folder_rejects_different_settings_and_a_second_run(translate, folder, tmp_path):
    (folder / "a.txt").write_bytes(b"w1\n")
    translate()
    status, [line] = translate("--num_beams", "3")
    assert status == 2 and "num_beams was 1 and is now 3" in line
    assert translate("--batch_size", "3")[0] == 0
    with exclusive(tmp_path / "out"):
        status, [line] = translate()
    assert status == 2 and "Another command is using" in line


def test_model_that_cannot_translate_leaves_no_settings_behind(translate, folder, tmp_path):
    (folder / "a.txt").write_bytes(b"w1\n")

    def rows(paths, options):
        raise script.ActorError("The model cannot be loaded.")
        yield

    assert translate("--num_beams", "3", rows=rows) == (2, ["error: The model cannot be loaded."])
    assert names(tmp_path / "out") == []
    assert translate()[0] == 0


def test_files_of_other_types_are_listed_but_hidden_ones_are_not(translate, folder, tmp_path):
    for name in ("a.txt", "b.TXT.GZ", "README.md", "x.parquet.gz", ".hidden.txt", "_SUCCESS"):
        (folder / name).write_bytes(b"")
    (folder / "sub.txt").mkdir()
    status, lines = translate()
    assert status == 0 and names(tmp_path / "out") == [".translation.json", "a.txt", "b.TXT.GZ"]
    assert lines[:3] == [
        f"warning: {folder / name} is not translated: it is not a .txt, .jsonl, or .parquet file."
        for name in ("README.md", "sub.txt", "x.parquet.gz")
    ]


def test_all_option_errors_are_reported_together_even_without_ray(saved_model, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    options = ["--samples", "3", "--column", "translation"]
    arguments = [str(saved_model), str(tmp_path / "absent"), str(tmp_path / "out"), *options]
    assert main(arguments, script.make_parser()) == 2
    assert capsys.readouterr().err.splitlines() == [
        "error: --samples needs --mbr chrf or --mbr bleu.",
        'error: ray is not installed. Install it with: pip install "hf-vaswani[ray]"',
        f"error: {tmp_path / 'absent'} is not a folder. Specify the folder of the files.",
        "error: --output_column translation is the column of the texts. Choose another name.",
    ]


def test_unusable_folders_are_rejected(translate, folder, saved_model, tmp_path, capsys):
    assert "has no .txt or .jsonl files" in translate()[1][0]
    (folder / "a.txt").write_bytes(b"w1\n")
    (tmp_path / "file").write_text("")
    for output, message in ((tmp_path / "file", "cannot be written"), (folder / ".", "is the folder of the files")):
        assert main([str(saved_model), str(folder), str(output)], script.make_parser()) == 2
        assert message in capsys.readouterr().err
