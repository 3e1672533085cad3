"""Sources of every kind: pairs, columns, errors and digests."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace

import pyarrow
import pytest
import zstandard
from pyarrow import parquet

from hf_vaswani.data.sources.text_files import iterate_lines
from hf_vaswani.data.sources.text_source import TextSource, check_source, digest, iterate_pairs
from hf_vaswani.errors import InputError

PAIRS = [("Ein Hund", "A dog"), ('Er sagte: "Ja, gern"', ""), ("é\u2028ü", "x\ty")]
PLAIN = [("Ein Hund", "A dog"), ("Er", ""), ("é\u2028ü", "x y")]
LANGUAGES = ("de", "en")
COMPRESSIONS = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.compress}


def json_lines(records: list) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


FILES = {
    "names.tsv": ("de\ten\n" + "".join(f"{s}\t{t}\n" for s, t in PLAIN), PLAIN),
    "no_names.tsv": ("".join(f"{s}\t{t}\n" for s, t in PLAIN), PLAIN),
    "other_columns.tsv": ("id\ttarget\tsource\n" + "".join(f"1\t{t}\t{s}\n" for s, t in PLAIN), PLAIN),
    "names.csv": ('id,de,en\n1,Ein Hund,A dog\n2,"Er sagte: ""Ja, gern""",\n\n3,é\u2028ü,x\ty\n', PAIRS),
    "lines.jsonl": (json_lines([{"de": s, "en": t or None, "id": 1} for s, t in PAIRS]), PAIRS),
    "nested.ndjson": (json_lines([{"id": "0", "translation": {"en": t, "de": s}} for s, t in PAIRS]), PAIRS),
    "default.json-lines": (json_lines([{"source": s, "target": t} for s, t in PAIRS]), PAIRS),
}


@pytest.fixture
def write(tmp_path):
    """Writes a file, compressed according to its suffix, and returns its path."""

    def write(name: str, content: str | bytes) -> str:
        content = content.encode() if isinstance(content, str) else content
        path = tmp_path / name
        path.write_bytes(COMPRESSIONS.get(path.suffix, bytes)(content))
        return str(path)

    return write


@pytest.fixture
def write_parquet(tmp_path):
    def write(columns: dict, name: str = "table.parquet") -> str:
        parquet.write_table(pyarrow.table(columns), tmp_path / name, row_group_size=10_000)
        return str(tmp_path / name)

    return write


def read(path: str, languages=LANGUAGES, **fields) -> list:
    return list(iterate_pairs(TextSource(file=path, **fields), languages))


def error_of(function, *arguments, **keywords) -> str:
    with pytest.raises(InputError) as error:
        function(*arguments, **keywords)
    return str(error.value)


# Formats and columns


def test_one_column_cannot_be_both_source_and_target(write_parquet):
    path = write_parquet({"de": ["Hund"], "en": ["dog"]})
    assert "no columns 'source' and 'target'" in error_of(read, path, ("de", "de"))
    path = write_parquet({"de": ["x"], "source": ["Hund"], "target": ["Tier"]})
    assert read(path, ("de", "de")) == [("Hund", "Tier")]


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("name", FILES)
def test_all_formats_yield_their_pairs_plain_and_compressed(write, name, compression):
    content, pairs = FILES[name]
    path = write(name + compression, content)
    assert read(path) == pairs
    assert check_source(TextSource(file=path), LANGUAGES) == []


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_parallel_files_yield_their_pairs_plain_and_compressed(write, compression):
    sides = {
        side: write(side + compression, "".join(f"{pair[i]}\n" for pair in PAIRS))
        for i, side in enumerate(("source", "target"))
    }
    assert list(iterate_pairs(TextSource(**sides), LANGUAGES)) == PAIRS


def test_several_parallel_files_are_read_in_order(write):
    source = TextSource(source=[write("a.de", "eins\n"), write("b.de.gz", "zwei\ndrei\n")],
                        target=[write("a.en.zst", "one\n"), write("b.en", "two\nthree\n")])  # fmt: skip
    assert list(iterate_pairs(source, LANGUAGES)) == [("eins", "one"), ("zwei", "two"), ("drei", "three")]


def test_parquet_has_two_columns_or_a_translation_column(write_parquet):
    sides = {"de": [s for s, _ in PAIRS], "en": [t or None for _, t in PAIRS]}
    assert read(write_parquet({"id": [1, 2, 3], **sides})) == PAIRS
    assert read(write_parquet({"translation": [{"de": s, "en": t} for s, t in PAIRS]})) == PAIRS


def test_null_translation_is_an_empty_pair(write, write_parquet):
    records = [{"translation": {"de": "a", "en": "b"}}, {"translation": None}]
    assert read(write("text.jsonl", json_lines(records))) == [("a", "b"), ("", "")]
    assert read(write_parquet({"translation": [record["translation"] for record in records]})) == [
        ("a", "b"),
        ("", ""),
    ]


def test_csv_cell_may_be_very_long(write):
    assert read(write("text.csv", f"de,en\n{'a' * 200_000},b\n")) == [("a" * 200_000, "b")]


def test_pipe_is_not_taken_for_a_missing_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="is a pipe or a device.*Save its text to a file"):
        list(iterate_lines(tmp_path / "pipe"))


def test_two_parquet_columns_of_one_name_are_an_error(tmp_path):
    table = pyarrow.Table.from_arrays([pyarrow.array(["x"])] * 3, names=["de", "de", "en"])
    parquet.write_table(table, tmp_path / "text.parquet")
    with pytest.raises(InputError, match="more than one column is named 'de'"):
        read(str(tmp_path / "text.parquet"))


def test_quotation_marks_in_tsv_are_text(write):
    assert read(write("text.tsv", '"Ja\t"Yes\nNein"\t"No"\n')) == [('"Ja', '"Yes'), ('Nein"', '"No"')]


def test_quoted_csv_field_may_contain_newlines(write):
    path = write("text.csv", 'de,en\n"eins\nzwei","one\ntwo"\nx,y\n')
    assert read(path) == [("eins\nzwei", "one\ntwo"), ("x", "y")]


@pytest.mark.parametrize(
    ("languages", "named", "expected"),
    [
        (("de", "en"), {}, ("d", "e")),
        (("en", "de"), {}, ("e", "d")),
        (("fr", "en"), {}, ("s", "t")),
        ((None, None), {}, ("s", "t")),
        (("de", None), {}, ("s", "t")),
        (("de", "en"), {"source_column": "extra", "target_column": "source"}, ("x", "s")),
    ],
)
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".csv"])
def test_columns_default_to_the_languages_then_to_source_and_target(
    write, write_parquet, suffix, nested, languages, named, expected
):
    record = {"de": "d", "en": "e", "source": "s", "target": "t", "extra": "x"}
    if suffix == ".csv":
        path = write("table.csv", ",".join(record) + "\n" + ",".join(record.values()) + "\n")
    else:
        record = {"translation": record} if nested else record
        path = write("text.jsonl", json_lines([record])) if suffix == ".jsonl" else None
        path = path or write_parquet({name: [value] for name, value in record.items()})
    assert read(path, languages, **named) == [expected]


def test_built_in_corpus_has_splits_and_both_directions():
    built_in = TextSource(dataset="built-in", split="test")
    test = list(iterate_pairs(built_in, ("de", "en")))
    assert len(test) == 500
    assert any("ß" in german for german, _ in test) and not any("ß" in english for _, english in test)
    assert list(iterate_pairs(built_in, (None, None))) == test
    assert list(iterate_pairs(built_in, ("en", "de"))) == [(english, german) for german, english in test]
    assert check_source(built_in, ("fr", "en")) == ["the built-in corpus has the languages de and en, not fr and en"]


@pytest.mark.parametrize("name", ["text.tsv", "text.csv", "text.jsonl", "text.tsv.gz", "text.jsonl.zst"])
def test_pairs_are_yielded_before_a_later_error_is_found(write, name):
    row = '{"de": "a", "en": "b"}\n' if "jsonl" in name else "a,b\n".replace(",", "," if "csv" in name else "\t")
    pairs = iterate_pairs(TextSource(file=write(name, row.encode() * 50_000 + b"\xff\n")), LANGUAGES)
    assert [next(pairs) for _ in range(10)] == [("a", "b")] * 10
    assert "line 50001: byte 0xff" in error_of(list, pairs)


# Errors within files


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.tsv", "a\tb\nc\n", "line 2: 1 column where 2 are expected"),
        ("t.tsv", "de\ten\nc\td\n\n\ne\tf\tg\n", "line 5: 3 columns where 2 are expected"),
        ("t.tsv", "a\tb\tc\n", "line 1: no columns 'de' and 'en' or 'source' and 'target'. Available: 'a', 'b', 'c'"),
        ("t.csv", "de,en,de\na,b,c\n", "line 1: more than one column is named 'de'"),
        ("t.csv", 'de,en\n"a\nb",c\nd\n', "line 4: 1 column where 2 are expected"),
        ("t.csv", 'de,en\na,b\n"c,d\ne,f\n', "line 3: unexpected end of data"),
        ("t.jsonl", '{"de": "a", "en": "b"}\n\n{"de": }\n', "line 3: not JSON: "),
        ("t.jsonl", "[1]\n", "line 1: not an object"),
        ("t.jsonl", "[" * 100_000 + "\n", "line 1: not JSON: "),
        ("t.jsonl", '{"de": "a"}\n', "line 1: no columns 'de' and 'en' or 'source' and 'target'. Available: 'de'"),
        ("t.jsonl", '{"de": "a", "en": "b"}\n{"de": "c"}\n', "line 2: column 'en' is missing here. Available: 'de'"),
        ("t.jsonl", '{"de": "a", "en": "b"}\n{"de": "c", "en": 7}\n', "line 2: column 'en' contains int 7, not text"),
        ("t.jsonl", '{"de": "a", "en": "\\ud800"}\n', "line 1: an unpaired surrogate"),
        ("t.jsonl", '{"de": "a", "en": null}\n{"de": "b", "en": " "}\n', "no line has text in column 'en'"),
        ("t.csv", "de,en\n", "is empty: it has no lines with text"),
        ("t.jsonl", b"{}\n\xe4\n", "line 1: no columns"),
        ("t.tsv", b"a\tb\nc\t\xe4\n", "line 2: byte 0xe4 at column 3 is not valid UTF-8"),
    ],
)
def test_file_error_says_where_and_what(write, name, content, message):
    path = write(name, content)
    assert error_of(read, path).startswith(path)
    assert message in error_of(read, path)


def test_named_columns_must_exist(write):
    message = error_of(read, write("t.tsv", "a\tb\n"), source_column="deu", target_column="eng")
    assert "line 1: no columns 'deu' and 'eng'. Available: 'a', 'b'" in message


def test_json_may_write_characters_as_surrogate_pairs(write):
    assert read(write("t.jsonl", '{"de": "\\ud83d\\ude00", "en": "\\u00e4"}\n')) == [("😀", "ä")]


def test_parquet_column_of_numbers_is_an_error(write_parquet):
    path = write_parquet({"de": [1], "en": ["a"]})
    assert error_of(read, path) == f"{path}, row 1: column 'de' contains int 1, not text."


def test_damaged_parquet_error_names_the_row(write_parquet):
    path = write_parquet({"de": [f"Satz {i * i}" for i in range(50_000)], "en": ["a"] * 50_000})
    with open(path, "r+b") as file:
        file.seek(200_000)
        file.write(b"\x00" * 5_000)
    pairs = iterate_pairs(TextSource(file=path), LANGUAGES)
    assert next(pairs) == ("Satz 0", "a")
    assert re.match(rf"{path} cannot be read after row [1-4]0000: .* Is it damaged", error_of(list, pairs))
    with open(path, "r+b") as file:
        file.truncate(1_000)
    assert f"{path} cannot be read after row 0" in error_of(read, path)


def test_length_mismatch_error_names_the_lines_of_the_file(write):
    source = TextSource(source=[write("a.de", "1\n"), write("b.de", "1\n2\n3\n")],
                        target=[write("a.en", "1\n"), write("b.en", "1\n")])  # fmt: skip
    pairs = iterate_pairs(source, LANGUAGES)
    assert [next(pairs), next(pairs)] == [("1", "1")] * 2
    message = error_of(list, pairs)
    assert "b.de has 3 lines and" in message and "lines 2 to 3 of" in message


# Descriptions


def test_recipe_entry_becomes_a_source():
    assert TextSource.parse("corpus.tsv", "data.train") == TextSource(file="corpus.tsv")
    assert TextSource.parse("built-in", "data.train") == TextSource(dataset="built-in")
    entry = {"source": ["a.de", "b.de"], "target": "a.en", "weight": "2", "split": None}
    parsed = TextSource.parse(entry, "data.train")
    assert parsed == TextSource(source=("a.de", "b.de"), target=("a.en",), weight=2.0)
    assert TextSource.parse({"dataset": "you/x", "config": 2017}, "data.train").config == "2017"


def test_all_errors_of_an_entry_are_reported_together():
    entry = {"sorce": "a", "dataset": ["x"], "weight": "heavy", "target": [1], "config": False, 3: 4}
    lines = error_of(TextSource.parse, entry, "data.train[1]").split("\n")
    assert lines[:5] == [
        "data.train[1]: unknown key 'sorce'; did you mean 'source'?",
        "data.train[1].dataset must be text, got ['x']",
        "data.train[1].weight must be a number, got 'heavy'",
        "data.train[1].target must be a path or a list of paths, got [1]",
        "data.train[1].config must be text, got False",
    ]
    assert lines[5].startswith("data.train[1]: unknown key '3'; choose from dataset, config")
    assert "must be the path of a file, or keys and values, got 7" in error_of(TextSource.parse, 7, "data.test")


@pytest.mark.parametrize(
    ("fields", "errors"),
    [
        ({}, ["no text is given"]),
        ({"file": "a.tsv", "dataset": "x"}, ["dataset and file are given together"]),
        ({"file": "a.tsv", "target": "x"}, ["file and target are given together"]),
        ({"source": "a"}, ["target is missing: the text whose line n translates line n of source"]),
        ({"target": "a"}, ["source is missing: the text whose line n translates line n of target"]),
        ({"source": ["a", "b"], "target": "c"}, ["source has 2 files and target 1"]),
        (
            {"source": "a", "target": "b", "source_column": "x", "split": "train"},
            ["split does not belong to parallel files", "source_column does not belong to parallel files"],
        ),
        (
            {"file": "a.txt", "config": "x", "target_column": "y", "weight": 0},
            ["config does not belong to file", "source_column is missing", "weight must be above 0", "unknown suffix"],
        ),
        ({"file": "a.tsv", "source_column": "x", "target_column": "x"}, ["are the same, 'x'"]),
        ({"file": "a.parquet.gz"}, ["Parquet files are compressed internally"]),
        ({"dataset": "built-in", "revision": "x"}, ["revision does not belong", "train, validation, test, got None"]),
        ({"dataset": "./absent"}, ["./absent does not exist"]),
        ({"dataset": __file__}, ["is a file. Use file:"]),
    ],
)
def test_all_contradictions_are_reported_together(fields, errors):
    found = check_source(TextSource(**fields), LANGUAGES)
    assert len(found) == len(errors)
    assert all(part in line for part, line in zip(errors, found))
    assert error_of(next, iterate_pairs(TextSource(**fields), LANGUAGES)) == "\n".join(found)


def test_check_finds_errors_at_the_start_of_files(write, tmp_path):
    (tmp_path / "folder.tsv").mkdir()
    cases = {
        "absent.tsv": "absent.tsv does not exist",
        "folder.tsv": "folder.tsv is a folder, not a file",
        "empty.jsonl": "empty.jsonl is empty",
        "columns.csv": "no columns 'de' and 'en' or 'source' and 'target'. Available: 'a', 'b', 'c'",
        "plain.tsv.gz": "Not a gzipped file",
        "damaged.parquet": "damaged.parquet cannot be read",
    }
    write("empty.jsonl", b"")
    write("columns.csv", "a,b,c\n")
    (tmp_path / "plain.tsv.gz").write_bytes(b"a\tb\n")
    write("damaged.parquet", b"PAR1 and then nothing")
    for name, message in cases.items():
        (error,) = check_source(TextSource(file=str(tmp_path / name)), LANGUAGES)
        assert message in error


def test_check_finds_errors_on_both_sides(write, tmp_path):
    errors = check_source(TextSource(source=str(tmp_path / "absent"), target=write("empty", b"")), LANGUAGES)
    assert ["absent does not exist" in errors[0], "empty is empty" in errors[1], len(errors)] == [True, True, 2]


# Digests


def test_digest_depends_on_the_content_not_the_location(write, tmp_path):
    path = write("a.tsv", "a\tb\n")
    before = digest(TextSource(file=path))
    moved = tmp_path / "elsewhere" / "other.tsv"
    moved.parent.mkdir()
    shutil.copy(path, moved)
    assert digest(TextSource(file=str(moved), weight=3.0)) == before
    moved.write_text("a\tc\n")
    assert digest(TextSource(file=str(moved))) != before


def test_digest_depends_on_how_the_content_is_read(write):
    content = "a\tb\n"
    one, other, lines = write("a.tsv", content), write("a.csv", content), write("a.txt", content)
    more, packed = write("b.txt", "x\ty\n"), write("a.tsv.gz", content)
    sources = [
        TextSource(file=one),
        TextSource(file=other),
        TextSource(file=packed),
        TextSource(file=one, source_column="a", target_column="b"),
        TextSource(file=one, source_column="b", target_column="a"),
        TextSource(source=lines, target=more),
        TextSource(source=more, target=lines),
        TextSource(source=[lines, more], target=[more, lines]),
        TextSource(dataset="built-in", split="train"),
        TextSource(dataset="built-in", split="test"),
    ]
    assert len({digest(source) for source in sources}) == len(sources)


@pytest.mark.parametrize(
    "names", ["german\tenglish", "Deutsch\tEnglisch", "src\ttrg", "sentence1\tsentence2", "de_text\ttext.en", "de\ten"]
)
def test_first_row_that_looks_like_a_header_needs_an_explicit_setting(write, names):
    path = write("t.tsv", f"{names}\nEin Hund\tA dog\n")
    first, second = names.split("\t")
    with pytest.raises(InputError, match=rf"t.tsv, line 1: '{first}' and '{second}' look like column names"):
        list(iterate_pairs(TextSource(file=path), (None, None)))
    by_header = {
        header: list(iterate_pairs(TextSource(file=path, header=header), LANGUAGES)) for header in (True, False)
    }
    assert by_header == {True: [("Ein Hund", "A dog")], False: [(first, second), ("Ein Hund", "A dog")]}
    columns = {"source_column": second, "target_column": first}
    assert list(iterate_pairs(TextSource(file=path, **columns), LANGUAGES)) == [("A dog", "Ein Hund")]


@pytest.mark.parametrize("pair", [("Hund", "dog"), ("Hallo!", "Hello!"), ("Ein Text", "A text"), ("no", "no")])
def test_short_first_pair_is_not_mistaken_for_a_header(write, pair):
    path = write("t.csv", f"{pair[0]},{pair[1]}\nEin Hund,A dog\n")
    assert list(iterate_pairs(TextSource(file=path), LANGUAGES)) == [pair, ("Ein Hund", "A dog")]


def test_file_without_a_header_must_have_two_columns(write):
    path = write("t.tsv", "1\tEin Hund\tA dog\n")
    with pytest.raises(InputError, match=r"line 1: without a header \(header: false\), a file has two columns"):
        list(iterate_pairs(TextSource(file=path, header=False), LANGUAGES))


def test_header_must_be_true_or_false():
    assert TextSource.parse({"file": "a.tsv", "header": False}, "data.train").header is False
    with pytest.raises(InputError, match="data.train.header must be true or false, got 1"):
        TextSource.parse({"file": "a.tsv", "header": 1}, "data.train")
    assert check_source(TextSource(dataset="built-in", split="train", header=True), LANGUAGES) == [
        "header does not belong to built-in"
    ]


def test_the_same_file_on_both_sides_is_an_error_if_the_languages_differ(write, tmp_path):
    file = write("a.de", "Ein Hund\n")
    os.symlink(file, tmp_path / "a.en")
    for other in (file, str(tmp_path / "a.en")):
        source = TextSource(source=(file,), target=(other,))
        [error] = check_source(source, LANGUAGES)
        assert error.startswith(f"{file} is both source and target, but their languages are de and en")
        # A model may learn to copy.
        assert check_source(source, ("de", "de")) == check_source(source, (None, None)) == []
    copied = TextSource(source=(file,), target=(write("b.en", "Ein Hund\n"),))
    assert check_source(copied, LANGUAGES) == []


def test_parallel_files_in_the_opposite_order_of_the_languages_are_an_error(write):
    german, english = write("a.de", "Ein Hund\n"), write("a.en", "A dog\n")
    swapped = TextSource(source=(english,), target=(german,))
    [error] = check_source(swapped, LANGUAGES)
    assert error.startswith(f"{english} and {german} are in the order of en to de")
    assert "(--source_language en --target_language de)" in error
    right = TextSource(source=(german,), target=(english,))
    odd = TextSource(source=(english,), target=(write("a.txt", "A dog\n"),))
    assert check_source(swapped, ("en", "de")) == check_source(right, LANGUAGES) == check_source(odd, LANGUAGES) == []
    assert check_source(swapped, (None, None)) == check_source(replace(swapped, reversed=True), LANGUAGES) == []


def test_tsv_with_all_cells_in_quotation_marks_is_an_error_with_a_remedy_that_works(write, tmp_path):
    rows = [("Er sagte ja", "He said yes"), ("Hund,\tKatze", "dog")] * 30
    quoted = "".join(f'"{s}"\t"{t}"\n'.replace("ja", '""ja""') for s, t in rows)
    for header in ("", "de\ten\n"):
        file = write("quoted.tsv", header + quoted.replace(",\tK", ", K"))
        [error] = check_source(TextSource(file=file), LANGUAGES)
        assert error.startswith(f"{file}: all cells are in quotation marks")
        command = error.partition("where they are not: ")[2]
        subprocess.run(command.replace("python", sys.executable, 1), shell=True, check=True)
        pairs = list(iterate_pairs(TextSource(file=str(tmp_path / "quoted.csv")), LANGUAGES))
        assert pairs[:2] == [('Er sagte "ja"', "He said yes"), ("Hund, Katze", "dog")] and len(pairs) == 60


def test_tsv_with_some_cells_in_quotation_marks_is_read_as_it_is(write):
    quoted = [('"Ja!"', '"Yes!"')] * 60 + [("Nein", "No")]
    for pairs in (quoted[:20], quoted[30:] + quoted[:30], [("Ja", '"Yes!"')] * 80):
        file = write("some.tsv", "".join(f"{s}\t{t}\n" for s, t in pairs))
        assert list(iterate_pairs(TextSource(file=file), LANGUAGES)) == pairs


@pytest.mark.parametrize(
    ("name", "text", "hint"),
    [
        ("a.csv", "de;en\nHund;dog\n", "separated by semicolons"),
        ("a.csv", "Hund;dog\nKatze;cat\n", "separated by semicolons"),
        ("a.csv", "de\ten\nHund\tdog\n", "separated by tabs"),
        ("a.tsv", "de;en\nHund;dog\n", "separated by semicolons"),
        ("a.tsv", "Hund,dog\n", "separated by commas"),
        ("a.tsv", "Hund|dog\n", "separated by vertical bars"),
        ("a.csv", "Hund,dog\nEsel;donkey\n", "separated by semicolons"),
    ],
)
def test_other_separators_are_named_in_the_error(write, name, text, hint):
    with pytest.raises(InputError, match=hint):
        list(iterate_pairs(TextSource(file=write(name, text)), LANGUAGES))


def test_table_of_three_columns_without_a_header_is_refused_with_how_to_name_them(tmp_path):
    path = tmp_path / "anki.tsv"
    path.write_text("Go.\tGeh.\tCC-BY 2.0\nHi.\tHallo.\tCC-BY 2.0\n")
    for header in (None, False):
        [error] = check_source(TextSource(file=str(path), header=header), ("de", "en"))
        assert "names all 3 columns: 'de' and 'en' for the text" in error
    path.write_text("en\tde\tcredit\n" + path.read_text())
    assert list(iterate_pairs(TextSource(file=str(path)), ("de", "en"))) == [("Geh.", "Go."), ("Hallo.", "Hi.")]
