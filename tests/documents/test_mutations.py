"""Documents with random damage: each is refused with a message, or comes back as it was, and can be translated."""

import random

import pytest

from hf_vaswani.documents.reading import read_document
from hf_vaswani.errors import InputError

from .test_formats import CASES, HTML_ATTRIBUTES, PO, XLIFF_1, XLIFF_2
from .test_office import docx, run

DOCUMENTS = [
    *((kind, content.encode("latin-1" if kind == "xml" else "utf-8")) for kind, content, _ in CASES),
    ("html", HTML_ATTRIBUTES.encode()),
    ("po", PO.encode()),
    ("xliff", XLIFF_1.encode()),
    ("xliff", XLIFF_2.encode()),
    ("docx", docx(f"<w:p>{run('one ')}{run('two', '<w:b/>')}</w:p>")),
]
PIECES = [
    *"<>&;\"'/\\{}[]()%#:=`*_-\n\r\t a\0\ufdd2\udc80", "<b>", "</b>", "<!--", "]]>", "<![CDATA[", "&#0;", "&#xd800;",
    r"\ud800", "{a, plural, one {",
]  # fmt: skip


def damaged(content: bytes, generator: random.Random) -> bytes:
    """A copy with up to four places changed."""
    for _ in range(generator.randint(1, 4)):
        at = generator.randrange(len(content) + 1)
        end = at + generator.choice((0, 0, 1, 2, 20))
        piece = generator.choice(PIECES).encode("utf-8", "surrogateescape")
        content = content[:at] + generator.choice((b"", piece, piece)) + content[end:]
    return content


@pytest.mark.parametrize("number", range(len(DOCUMENTS)), ids=[kind for kind, _ in DOCUMENTS])
def test_damaged_document_is_refused_or_comes_back_as_it_was(number):
    kind, content = DOCUMENTS[number]
    generator, read = random.Random(number), 0
    for _ in range(100):
        changed = damaged(content, generator)
        try:
            document = read_document(kind, changed)
        except InputError as error:
            assert str(error).endswith(".")
            continue
        is_same = document.fill(document.texts) == changed
        assert is_same or kind in ("po", "xliff")  # which get their source as a translation
        again = document.fill([f"Ω {text}" for text in document.texts])
        if kind in ("xml", "xliff", "docx", "po", "json"):
            read_document(kind, again)  # is still such a document
        read += 1
    assert read
