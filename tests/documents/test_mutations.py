"""Documents with random damage: each is refused with a message, or comes back as it was, and can be translated."""

import random
import time

import pytest

from hf_vaswani.documents.reading import read_document
from hf_vaswani.errors import InputError

from .test_formats import CASES, HTML_ATTRIBUTES, PO, STUDIO, TMX, XLIFF_1, XLIFF_2
from .test_office import ODF, A, docx, packed, run

BODY = f"<w:p>{run('one ')}{run('two', '<w:b/>')}</w:p>"
DOCX = docx(BODY)
# Archives with such damage in their text.
ARCHIVES = {
    "docx": docx,
    "pptx": lambda text: packed({"ppt/presentation.xml": "<a/>", "ppt/slides/slide1.xml": f"<a {A}>{text}</a>"}),
    "odt": lambda text: packed({"content.xml": f"<o {ODF}>{text}</o>"}),
}
DOCUMENTS = [
    *((kind, content.encode("latin-1" if kind == "xml" else "utf-8")) for kind, content, _ in CASES),
    ("html", HTML_ATTRIBUTES.encode()),
    ("po", PO.encode()),
    ("xliff", XLIFF_1.encode()),
    ("xliff", XLIFF_2.encode()),
    ("xliff", STUDIO.format("", '<sdl:seg id="1" locked="true"/><sdl:seg id="2"/>').encode()),
    ("tmx", TMX.encode()),
    ("docx", DOCX),
    ("docx", BODY.encode()),
    ("pptx", b"<a:p><a:r><a:rPr b='1'/><a:t>one </a:t></a:r><a:r><a:t>two</a:t></a:r></a:p>"),
    ("odt", b"<text:p>one <text:span>two</text:span><text:note><text:p>note</text:p></text:note></text:p>"),
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


# Of these, the number of texts says whether the structure is the same. A message of JSON may have several.
SAME_TEXTS = ("html", "xml", "md", "properties", "srt", "vtt", *ARCHIVES)


@pytest.mark.parametrize("count", [60, pytest.param(1500 // len(DOCUMENTS) + 1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("number", range(len(DOCUMENTS)), ids=[kind for kind, _ in DOCUMENTS])
def test_damaged_document_is_refused_or_keeps_its_structure(number, count):
    kind, content = DOCUMENTS[number]
    generator, read = random.Random(number), 0
    for _ in range(count):
        changed, began = damaged(content, generator), time.process_time()
        if kind in ARCHIVES and content != DOCX:
            changed = ARCHIVES[kind](changed.decode("utf-8", "replace"))
        try:
            document = read_document(kind, changed)
        except InputError as error:
            assert str(error).endswith(".") and len(str(error)) < 500
            continue
        is_same = document.fill(document.texts) == changed
        assert is_same or kind in ("po", "xliff", "tmx")  # which get their source as a translation
        again = read_document(kind, document.fill([f"{text} Ω" for text in document.texts]))
        if kind in SAME_TEXTS:
            assert len(again.texts) == len(document.texts)
        assert time.process_time() - began < 5
        read += 1
    assert read or content == DOCX  # of which hardly any damage leaves an archive
