"""Glossaries from files: tables and TBX, and errors that name the line."""

import csv

import pytest

from hf_vaswani.data.glossary_files import read_glossary
from hf_vaswani.errors import InputError
from hf_vaswani.text.glossary import Entry

TBX = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE martif SYSTEM "TBXcoreStructV02.dtd">
<martif type="TBX" xml:lang="en"><text><body>
<termEntry id="c1">
<langSet xml:lang="de-DE"><tig><term>Hund</term></tig><tig><term>Köter</term></tig></langSet>
<langSet xml:lang="en"><tig><term>hound</term></tig><ntig><termGrp><term>big  dog</term></termGrp></ntig>
<tig><term>cur</term><termNote type="administrativeStatus">deprecatedTerm-admn-sts</termNote></tig></langSet>
<langSet xml:lang="fr"><tig><term>chien</term></tig></langSet>
</termEntry>
</body></text></martif>"""
VERSION_3 = """<tbx xmlns="urn:iso:std:iso:30042:ed-2" type="TBX-Basic"><text><body><conceptEntry>
<langSec xml:lang="de"><termSec><term>Hund</term></termSec></langSec>
<langSec xml:lang="en"><termSec><term>hound</term></termSec></langSec>
</conceptEntry></body></text></tbx>"""


@pytest.fixture
def glossary(tmp_path):
    def read(name, text, *languages):
        file = tmp_path / name
        file.write_text(text, encoding="utf-8")
        return list(read_glossary(file, languages or (None, None)).entries)

    return read


def test_line_breaks_within_a_cell_are_spaces(glossary):
    assert glossary("a.csv", '\ufeff"großer\r\nHund","big\tdog"\n') == [Entry("großer Hund", ("big dog",))]


@pytest.mark.parametrize(
    "name, text",
    [
        ("a.tsv", 'Hund\thound | dog\n\nAuto "x"\tcar\texact\n'),
        ("a.csv", 'source,target,case\nHund,hound|dog\n"Auto ""x""", car,exact\n'),
    ],
)
def test_tables(glossary, name, text):
    assert glossary(name, text) == [Entry("Hund", ("hound", "dog")), Entry('Auto "x"', ("car",), "exact")]


def test_tbx_of_version_2(glossary):
    targets = ("hound", "big dog")
    assert glossary("a.tbx", TBX, "de", "en-US") == [Entry("Hund", targets), Entry("Köter", targets)]


def test_tbx_of_version_3(glossary):
    assert glossary("a.tbx", VERSION_3, "de", "en") == [Entry("Hund", ("hound",))]


@pytest.mark.parametrize(
    "name, text, error",
    [
        ("a.tsv", "Hund\thound\nKatze\n", "a.tsv, line 2: there is no target term. Put a tab"),
        ("a.tsv", "Hund\thound\nHund\tdog\n", "a.tsv, line 2: 'Hund' has other target terms here than before"),
        ("a.csv", "Hund,\n", "a.csv, line 1: a target term of 'Hund' is empty"),
        ("a.csv", "Hund,dog,DE\n", "a.csv, line 1: the case rule of 'Hund' must be exact or ignore, not 'DE'"),
        ("a.csv", "source,target\n", "a.csv has no terms"),
        (
            "a.tsv",
            f"Hund\tdog\nKatze\t{'cat ' * 5000}\n",
            "a.tsv, line 2: the term '(cat ){15}'… has 19,999",
        ),
        ("a.csv", f"Hund,{'a' * 50_000}\n", "a.csv, line 1: the term 'a.* has 50,000 characters, more than 1,024"),
        ("a.pdf", "Hund", "a.pdf is not a glossary"),
        ("a.tbx", TBX, "a.tbx has terms in de-DE, en, fr. Choose the two languages with --source_language"),
        ("a.tbx", TBX.replace("</body>", ""), r"a.tbx, line 10, column 3: not valid XML \(mismatched tag"),
        ("a.tbx", '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "a.tbx declares entities"),
    ],
)
def test_invalid_files(glossary, name, text, error):
    with pytest.raises(InputError, match=error):
        glossary(name, text)


def test_cell_beyond_the_limit_of_csv_is_an_error_with_its_line(glossary):
    before = csv.field_size_limit(1000)
    try:
        with pytest.raises(InputError, match="a.csv, line 2: field larger than field limit"):
            glossary("a.csv", f"Katze,cat\nHund,{'a' * 2000}\n")
    finally:
        csv.field_size_limit(before)
