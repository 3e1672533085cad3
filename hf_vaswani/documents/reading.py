"""Opens a document by its format: its texts to translate, and its bytes with translations in their place."""

from collections.abc import Callable, Sequence
from itertools import repeat

from ..errors import InputError
from . import markdown, markup, plain, po, resources, strings, subtitles, xliff
from .encoding import decode
from .formats import OFFICE
from .limits import check_marks, count_marks
from .office import read_office
from .parts import Parts
from .tag_placement import Alignment, Translations

# The reader of each format of text; see `formats.py`.
READERS: dict[str, Callable[[str], Parts]] = {
    "txt": plain.read_lines,
    "html": markup.read_html,
    "xml": resources.read_xml,
    "md": markdown.read_markdown,
    "json": strings.read_json,
    "properties": strings.read_properties,
    "po": po.read_po,
    "srt": subtitles.read_srt,
    "vtt": subtitles.read_vtt,
    "xliff": xliff.read_xliff,
    "tmx": xliff.read_tmx,
    "resx": resources.read_resx,
    "strings": resources.read_apple,
    "stringsdict": resources.read_plist,
}


# How files begin that are not read, and those that are no text.
NOT_READ = {b"%PDF-": "a PDF", b"{\\rtf": "RTF"}
NO_TEXT = {b"PK\x03\x04": "an archive, such as an office file", b"\xd0\xcf\x11\xe0": "an old office file"}


class Document:
    """A document that was read.

    Attributes:
        texts: what is to be translated, in order.
        has_tags: for each text whether there are tags in it, which an alignment places better.
    """

    def __init__(self, parts: Sequence[Parts], write: Callable[[Translations, str | None], bytes]):
        self.texts = [text for part in parts for text in part.texts]
        self.has_tags = [has_tags for part in parts for has_tags in part.has_tags]
        self._write = write

    def fill(
        self,
        translations: Sequence[str],
        alignments: Sequence[Alignment | None] | None = None,
        target_language: str | None = None,
    ) -> bytes:
        """The document with a translation in place of each text, and everything else as it was.

        Args:
            translations: one for each of `texts`.
            alignments: for each text, pairs of a source and a target word, by which tags are placed; words are
                numbered as in `hf_vaswani.text.words.word_spans`, from 0. Without them, tags keep their share of the
                words.
            target_language: code of the translations' language, for TMX and XLIFF 2, which must name it.

        Raises:
            ValueError: there are not as many translations as texts.
        """
        if len(translations) != len(self.texts):
            raise ValueError(f"{len(translations)} translations for {len(self.texts)} texts")
        return self._write(zip(translations, alignments or repeat(None)), target_language)


def read_document(kind: str, content: bytes) -> Document:
    """Read a document.

    Args:
        kind: its format, one of `FORMATS`.

    Raises:
        InputError: it cannot be read; the message says where and why.
    """
    starts = NOT_READ if kind in OFFICE else NOT_READ | NO_TEXT
    if other := next((name for start, name in starts.items() if content.startswith(start)), None):
        raise InputError(f"It is {other}, not {kind}. Choose another format or file.")
    try:
        if kind in OFFICE:
            found, write = read_office(kind, content)
            return Document(found, lambda translations, _: write(translations))
        text, encode = _decode_text(content, kind)
        if kind == "txt" and subtitles.is_srt(text):
            kind = "srt"
        check_marks(count_marks(kind, text))
        parts = READERS[kind](text)
    except RecursionError:
        raise InputError("It is nested too deeply to be read. Simplify it.") from None

    def write_text(translations: Translations, target_language: str | None) -> bytes:
        filled = parts.fill(translations)
        if filled == text:
            return content  # in some encodings, a character has several spellings
        if kind == "xliff" and target_language:
            filled = xliff.with_target_language(filled, target_language)
        elif kind == "tmx":
            filled = xliff.with_language(filled, target_language)
        return encode(filled)

    return Document([parts], write_text)


def _decode_text(content: bytes, kind: str) -> tuple[str, Callable[[str], bytes]]:
    """The text of a file, and what turns another one into bytes, as in [`decode`].

    Raises:
        InputError: it is no text.
    """
    text, encode = decode(content, kind)
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(f"Line {line}: there is a null byte, which no text has. Convert the file to UTF-8.")
    return text, encode


def read_texts(kind: str, content: bytes) -> tuple[list[str], list[bool]]:
    """The texts of a document and whether each has tags, as plain values; errors as in [`read_document`]."""
    document = read_document(kind, content)
    return document.texts, document.has_tags


def fill_document(
    kind: str,
    content: bytes,
    translations: Sequence[str],
    alignments: Sequence[Alignment | None] | None = None,
    target_language: str | None = None,
) -> bytes:
    """A document with translations in place of its texts, as [`Document.fill`] writes it."""
    return read_document(kind, content).fill(translations, alignments, target_language)
