"""Reads TMX, the format in which translation memories are exchanged: units with a text in each of some languages.

A file may have millions of units. It is read as a stream, and only a few are in memory at a time.
"""

import html
import logging
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import permutations
from pathlib import Path
from xml.parsers import expat

from ...errors import InputError, counted
from ...text.languages import is_same_language
from ...text.xml_entities import refuse_entities
from .text_files import LONGEST_LINE, TO_UTF_8, read_chunks

# Elements within a text that have codes of another format. Others, such as hi, have words of the sentence.
CODES = ("bpt", "ept", "ph", "it", "ut")
# The type of a code and the code itself, if it ends a line.
LINE_BREAK = re.compile(r"^(?:x-)?lb>|>\s*<(?:br|/?p)\b|\\n|\n", re.IGNORECASE)
SPACE = re.compile(r"[ \t\r\n]+")
DEEPEST = 100
# Bytes of a tag or comment. The parser looks at all of it again for each piece of the file.
LONGEST_TAG = 1 << 22
MOST_LANGUAGES = 20  # that a message names
# What expat finds at the end of a file whose end is missing.
TRUNCATED = {
    expat.errors.codes[message] for message in (
        expat.errors.XML_ERROR_NO_ELEMENTS, expat.errors.XML_ERROR_UNCLOSED_TOKEN,
        expat.errors.XML_ERROR_PARTIAL_CHAR, expat.errors.XML_ERROR_UNCLOSED_CDATA_SECTION,
    )
}  # fmt: skip
logger = logging.getLogger(__name__)


def read_tmx(
    path: str | Path, candidates: Sequence[tuple[str, str]], header: bool | None
) -> Iterator[tuple[int, dict[str, str]]]:
    """Lazily yield `(line, {language: text})` for each unit that has both languages, under the names wanted.

    The code `de` also stands for `de-DE`. Units that lack a language are left out; a warning at the end counts them.

    Args:
        candidates: of which the first are the languages.
        header: unused.

    Raises:
        InputError: the file is not well-formed (with the line), or no unit has both languages.
    """
    units = _Units(str(path), candidates[0])
    for chunk in read_chunks(path):
        yield from units.feed(chunk)
    yield from units.feed(b"", is_last=True)
    units.report()


class _Units:
    """Finds the units in the pieces of a file.

    Args:
        wanted: the languages.
    """

    def __init__(self, path: str, wanted: tuple[str, str]):
        self._path, self._wanted = path, wanted
        self._complete: list[tuple[int, dict[str, str]]] = []
        self._languages: dict[str, None] = {}  # in the file
        self._number, self._incomplete, self._first_incomplete = 0, 0, 0
        self._depth = 0
        # Of the open unit: its line, its texts by language, the language, and the pieces of an open text and code.
        self._line, self._texts, self._language = 0, dict[str, str](), ""
        self._text: list[str] | None = None
        self._code: list[str] = []
        self._codes = self._length = 0  # open codes, and characters
        self._fed, self._last = 0, b""
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.UseForeignDTD(True)  # entities may be unknown
        refuse_entities(self._parser, self._where)
        self._parser.StartElementHandler, self._parser.EndElementHandler = self._start, self._end
        self._parser.CharacterDataHandler = self._add
        self._parser.SkippedEntityHandler = lambda name, _: self._add(html.unescape(f"&{name};"))

    def feed(self, chunk: bytes, is_last: bool = False) -> Iterator[tuple[int, dict[str, str]]]:
        """Yield the units that a piece of the file completes, those before an error, too."""
        self._fed, self._last = self._fed + len(chunk), self._last[-len(chunk) :] + chunk
        error = None
        try:
            self._parser.Parse(chunk, is_last)
            if self._fed - max(self._parser.CurrentByteIndex, 0) > LONGEST_TAG:
                raise self._too_long(LONGEST_TAG)
        except expat.ExpatError as found:
            error = self._explain(found)
        except InputError as found:
            error = found
        complete, self._complete = self._complete, []
        yield from complete
        if error:
            raise error

    def report(self) -> None:
        """Warn of units that lack a language, or raise an error if all of them do."""
        names = " and ".join(map(repr, self._wanted))
        if self._incomplete == self._number:
            found = ", ".join(self._languages) or "none"
            raise InputError(
                f"{self._path}: no unit has a text in both {names}. Its languages are: {found}. Specify two of them "
                "with source_language and target_language."
            )
        if self._incomplete:
            _warn(
                f"warning: {self._path}: {self._incomplete:,} of {counted(self._number, 'unit')} have no text in both "
                f"{names} and are left out; the first is in line {self._first_incomplete}"
            )

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        name = tag.rpartition(":")[2]
        if self._depth == 1 and name != "tmx":
            raise InputError(f"{self._where()}: the root element is {name}, not tmx. Is it another format?")
        if self._depth > DEEPEST:
            raise InputError(f"{self._where()}: more than {DEEPEST} elements within each other.")
        if name in CODES and self._text is not None:
            self._codes += 1
            self._code.append(f"{attributes.get('type', '')}>")
        elif name == "tu":
            self._line, self._texts, self._language = self._parser.CurrentLineNumber, {}, ""
        elif name == "tuv":
            self._language = attributes.get("xml:lang") or attributes.get("lang", "")
        elif name == "seg":
            self._text, self._length = [], 0

    def _add(self, text: str) -> None:
        if self._text is None:
            return
        (self._code if self._codes else self._text).append(text)
        self._length += len(text)
        if self._length > LONGEST_LINE:
            raise self._too_long(LONGEST_LINE)

    def _end(self, tag: str) -> None:
        self._depth -= 1
        name = tag.rpartition(":")[2]
        if name in CODES and self._codes:
            self._codes -= 1
            if not self._codes:
                self._text += [" "] * bool(LINE_BREAK.search("".join(self._code)))
                self._code = []
        elif name == "seg" and self._text is not None:
            self._end_text(SPACE.sub(" ", "".join(self._text)).strip(" "))
        elif name == "tu":
            self._end_unit()

    def _end_text(self, text: str) -> None:
        self._text = None
        if len(self._languages) < MOST_LANGUAGES:
            self._languages[self._language] = None
        if any(_rank(self._language, code) for code in self._wanted):
            self._texts.setdefault(self._language, text)

    def _end_unit(self) -> None:
        self._number += 1
        ranked = [
            (_rank(one, self._wanted[0]) + _rank(other, self._wanted[1]), one, other)
            for one, other in permutations(self._texts, 2)
            if _rank(one, self._wanted[0]) and _rank(other, self._wanted[1])
        ]
        if ranked:
            _, *chosen = max(ranked, key=lambda entry: entry[0])  # the first of the best
            texts = [self._texts[language] for language in chosen]
            self._complete.append((self._line, dict(zip(self._wanted, texts))))
        else:
            self._first_incomplete = self._first_incomplete or self._line
            self._incomplete += 1

    def _where(self) -> str:
        return f"{self._path}, line {self._parser.CurrentLineNumber}"

    def _too_long(self, limit: int) -> InputError:
        return InputError(f"{self._where()}: longer than {limit >> 20} MiB. Each text must be a sentence.")

    def _explain(self, error: expat.ExpatError) -> InputError:
        if error.code in TRUNCATED:
            return InputError(
                f"{self._path} is truncated after line {error.lineno}: its end is missing. Copy or download it again."
            )
        where = f"{self._path}, line {error.lineno}, column {error.offset + 1}"
        at = max(len(self._last) - self._fed + self._parser.ErrorByteIndex, 0)
        byte = self._last[at : at + 1]
        if error.code == expat.errors.codes[expat.errors.XML_ERROR_INVALID_TOKEN] and byte >= b"\x80":
            return InputError(f"{where}: byte 0x{byte.hex()} is not valid UTF-8. Convert the file, for example with: "
                              f"{TO_UTF_8}")  # fmt: skip
        return InputError(f"{where}: {expat.ErrorString(error.code)}. Correct it, or leave the unit out.")


@lru_cache(maxsize=1000)
def _rank(language: str, wanted: str) -> int:
    """How well a language's code is the wanted one: 0, 1, or 2 if it is the same."""
    codes = [code.replace("_", "-").lower() for code in (language, wanted)]
    return 2 if codes[0] == codes[1] else int(bool(language) and is_same_language(language, wanted))


@lru_cache(maxsize=100)
def _warn(message: str) -> None:
    """Warn once: a file may be read several times."""
    logger.warning(message)
