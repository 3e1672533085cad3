"""Clean text is known by the report next to it."""

import hashlib
import json

import pytest

from hf_vaswani.cleaning.provenance import cleaned_from, public_names
from hf_vaswani.data.sources.text_source import TextSource


@pytest.fixture
def clean_file(tmp_path):
    file = tmp_path / "clean.de"
    file.write_text("Hund\n")
    values = {
        "sources": ["raw.de and raw.en"], "files": {"clean.de": hashlib.sha256(b"Hund\n").hexdigest()}, "read": 3,
        "kept": 1, "reasons": {"copy": 2, "empty": 0}, "repairs": {"tags": 0},
    }  # fmt: skip
    (tmp_path / "report.json").write_text(json.dumps(values))
    return file


def test_text_that_clean_has_written_is_known(clean_file):
    expected = {"sources": ["raw.de and raw.en"], "read": 3, "kept": 1, "reasons": {"copy": 2}, "repairs": {}}
    assert cleaned_from(clean_file) == expected


def test_text_that_was_changed_afterwards_is_not(clean_file):
    clean_file.write_text("Katze\n")
    assert cleaned_from(clean_file) is None


@pytest.mark.parametrize("content", ["{}", "[]", "no JSON", '{"files": {"clean.de": 1}}', '{"files": 3}'])
def test_a_report_of_another_program_says_nothing(clean_file, content):
    (clean_file.parent / "report.json").write_text(content)
    assert cleaned_from(clean_file) is None


def test_names_of_sources_are_without_folders():
    sources = [
        TextSource(source="a/b.de", target="c/d.en"),
        TextSource(file="x/y.tsv"),
        TextSource(dataset="org/name"),
    ]
    assert public_names(sources) == ["b.de and d.en", "y.tsv", "org/name"]
