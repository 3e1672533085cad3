"""Damaged and hostile documents: refused with the place and the reason."""

import socket
import time

import pytest

from hf_vaswani.documents.reading import read_document
from hf_vaswani.errors import InputError

BOMB = '<!DOCTYPE a [<!ENTITY b "x"><!ENTITY c "&b;&b;&b;">]>\n<a>&c;</a>'
EXTERNAL = '<!DOCTYPE a [\n<!ENTITY b SYSTEM "http://localhost/x">]>\n<a>&b;</a>'


@pytest.mark.parametrize("kind, content, message", [
    ("xml", b"<a>\n <b>x</a>", "Line 2, column 8: mismatched tag. Correct it."),
    ("xml", BOMB.encode(), "Line 1, column 40: the entity c refers to another file or entity, which is not read."),
    ("xml", EXTERNAL.encode(), ": the entity b refers to another file or entity"),
    ("xml", b'<!DOCTYPE a [<!ENTITY % b "x">]><a/>', "the entity b refers to another file or entity"),
    ("xliff", b"<xliff>\n<file>", "Line 2, column 7: no element found. Correct it."),
    ("xliff", b"<html/>", "Line 1: the root element is html, not xliff. Choose another format."),
    ("tmx", b"<html/>", "Line 1: the root element is html, not tmx. Choose another format."),
    ("json", b'{"a":\n "b" "c"}', "Line 2, column 6: Expecting ',' delimiter. Correct it."),
    ("po", b'msgid "a"\nmsgstr "b\n', 'Line 2: msgstr "b is not a line of a PO file. Correct it.'),
    ("srt", b"hello\n", "There are no times, such as 01:02:03,000 --> 01:02:05,000. Check the format."),
    ("vtt", b"00:01.000 --> 00:02.000\nhi", "Line 1: WebVTT begins with WEBVTT."),
    ("txt", b"a\n\xff", "Line 2: byte 0xff is not text in UTF-8. Convert the file to UTF-8."),
    ("html", b'<meta charset="nothing">', "the encoding nothing, which is unknown or does not match its text."),
    ("json", b"[" * 100_000, "It is nested too deeply to be read."),
])  # fmt: skip
def test_damaged_document_is_refused_with_its_place(kind, content, message, monkeypatch):
    monkeypatch.setattr(socket, "socket", None)  # nothing is fetched
    with pytest.raises(InputError) as error:
        read_document(kind, content)
    assert message in str(error.value)


@pytest.mark.parametrize("name", ["hex", "zlib", "rot13", "undefined", "idna", "utf-16", "cp037"])
@pytest.mark.parametrize("kind, content", [
    ("html", '<meta charset="{}"><p>a</p>'),
    ("xml", '<?xml version="1.0" encoding="{}"?><a>b</a>'),
], ids=["html", "xml"])  # fmt: skip
def test_encoding_that_the_declaration_itself_is_not_in_is_refused(kind, content, name):
    with pytest.raises(InputError, match=f"declares the encoding {name}, which is unknown or does not match its text"):
        read_document(kind, content.format(name).encode())


@pytest.mark.parametrize("name", ["hex", "undefined", "CHARSET"])
def test_po_file_with_an_unknown_encoding_is_read_as_utf8(name):
    content = f'msgid ""\nmsgstr "Content-Type: text/plain; charset={name}"\n\nmsgid "ä"\nmsgstr ""\n'
    assert read_document("po", content.encode()).texts == ["ä"]


@pytest.mark.parametrize("name", ["utf-8", "ISO-8859-1", "windows-1252", "UTF-7"])
def test_encoding_of_texts_is_accepted(name):
    content = f'<meta content="é" charset="{name}"><p>a</p>'.encode(name)
    assert read_document("html", content).texts == ["a"]


def test_document_type_elsewhere_is_not_fetched(monkeypatch):
    monkeypatch.setattr(socket, "socket", None)
    content = b'<!DOCTYPE html PUBLIC "x" "http://localhost/x.dtd">\n<html><p>a&nbsp;b</p></html>'
    document = read_document("xml", content)
    assert document.texts == ["a\xa0b"] and document.fill(document.texts) == content


def test_other_number_of_translations_is_an_error():
    with pytest.raises(ValueError, match="2 translations for 1 texts"):
        read_document("txt", b"a").fill(["a", "b"])


@pytest.mark.parametrize("kind, content", [
    ("html", "<b>" * 3000 + "x" + "</i>" * 3000),
    ("html", "<p>one <sup>" * 3000),
    ("xml", "<a>x" * 3000 + "</a>" * 3000),
    ("json", '"' + "{a, plural, one {" * 3000 + '"'),
    ("srt", "1\n00:01,0 --> 00:02,0\n" + "<i>x\n" * 3000),
], ids=range(5))  # fmt: skip
def test_unusual_documents_take_no_longer_than_others(kind, content):
    began = time.process_time()
    document = read_document(kind, content.encode())
    assert document.fill(document.texts) == content.encode()
    document.fill([text.upper() for text in document.texts])
    assert time.process_time() - began < 5


@pytest.mark.parametrize("kind, content", [
    ("html", b"<b>" * 2_000_001), ("xml", b"<a>" + b"<b/>" * 2_000_000 + b"</a>"), ("txt", b"a\n" * 2_000_001),
    ("json", b"[" + b'"a",' * 1_000_001 + b"1]"), ("md", b"*a" * 2_000_001), ("srt", b"a\n" * 2_000_001),
], ids=["html", "xml", "txt", "json", "md", "srt"])  # fmt: skip
def test_document_of_too_many_parts_is_refused_before_it_is_read(kind, content):
    began = time.process_time()
    with pytest.raises(
        InputError, match=r"It has 2,000,0\d\d lines, tags, and the like, but at most 2,000,000 are read\."
    ):
        read_document(kind, content)
    assert time.process_time() - began < 2
